package sandboxcli_test

import (
	"archive/tar"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

type image struct{ ID, Repository, Tag string }

func (r fixture) images(t *testing.T) []image {
	t.Helper()
	var got struct{ Images []image }
	assert.NilError(t, json.Unmarshal([]byte(r.ok(t, "template", "ls", "--json")), &got))
	return got.Images
}

// archive writes the parts of a "docker image save" that are read.
func archive(t *testing.T, path, manifest string) {
	t.Helper()
	f, err := os.Create(path)
	assert.NilError(t, err)
	w := tar.NewWriter(f)
	for _, file := range []struct{ name, content string }{{"blobs/x", "layer"}, {"manifest.json", manifest}} {
		assert.NilError(t, w.WriteHeader(&tar.Header{Name: file.name, Mode: 0o644, Size: int64(len(file.content))}))
		_, err = io.WriteString(w, file.content)
		assert.NilError(t, err)
	}
	assert.NilError(t, w.Close())
	assert.NilError(t, f.Close())
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	assert.Equal(t, len(r.images(t)), 0)
	file := filepath.Join(r.ws, "image.tar")
	digest := strings.Repeat("0123456789abcdef", 4)
	archive(t, file, `[{"Config":"blobs/sha256/`+digest+`","RepoTags":["my/ralph:v1","bare:v2"]}]`)
	r.ok(t, "template", "load", file)
	r.ok(t, "template", "load", file)
	assert.DeepEqual(t, r.images(t), []image{
		{digest[:12], "docker.io/my/ralph", "v1"}, {digest[:12], "docker.io/library/bare", "v2"},
	})
	for i, name := range []string{"my/ralph:v1", "docker.io/my/ralph:v1", "bare:v2"} {
		r.create(t, "box"+string(rune('a'+i)), "--pull", "never", "-t", name)
	}
	assert.Equal(t, r.run(t, "", "template", "rm", "bare:v2").code, 1, "without a terminal it wants --force")
	r.ok(t, "template", "rm", "--force", "bare:v2")
	assert.Equal(t, len(r.images(t)), 1)
	assert.Equal(t, r.run(t, "", "create", "--name", "new", "--pull", "never", "-t", "bare:v2", "shell", r.ws).code, 1)

	archive(t, file, `[{"Config":"`+digest+`.json","RepoTags":null}]`)
	r.ok(t, "template", "load", file)
	assert.Equal(t, r.images(t)[1], image{digest[:12], "<none>", "<none>"})

	for _, bad := range []string{`{`, `[{"Config":"x"}]`, `[{"Config":"` + digest + `","RepoTags":["UPPER"]}]`} {
		archive(t, file, bad)
		assert.Equal(t, r.run(t, "", "template", "load", file).code, 1, "%s", bad)
	}
	assert.Equal(t, r.run(t, "", "template", "load", "/no/such").code, 1)
}

func TestTemplateFromAnEngine(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		r := newFixture(t, inContainers(e))
		saved, err := e.Client(t).ImageSave(t.Context(), []string{engines.BaseImage()})
		assert.NilError(t, err)
		file := filepath.Join(r.ws, "image.tar")
		f, err := os.Create(file)
		assert.NilError(t, err)
		_, err = io.Copy(f, saved)
		assert.NilError(t, err)
		assert.NilError(t, f.Close())
		assert.NilError(t, saved.Close())

		args := []string{"create", "--name", "box", "--pull", "never", "-t", engines.BaseImage(), "shell", r.ws}
		assert.Equal(t, r.run(t, "", args...).code, 1, "the engine's own images are not templates")
		r.ok(t, "template", "load", file)
		listed := r.images(t)
		assert.Equal(t, len(listed), 1)
		assert.Equal(t, listed[0].Repository+":"+listed[0].Tag, "docker.io/library/"+engines.BaseImage())
		r.ok(t, args...)
		r.ok(t, "exec", "box", "sh", "-c", "echo kept > ~/file")
		assert.Equal(t, r.run(t, "", "template", "save", "box", "fake-test:saved").code, 1, "it runs")
		r.ok(t, "stop", "box")
		r.ok(t, "template", "save", "box", "fake-test:saved")
		t.Cleanup(func() { removeImage(t, e, "fake-test:saved") })
		r.create(t, "second", "--pull", "never", "-t", "fake-test:saved")
		assert.Equal(t, r.ok(t, "exec", "second", "sh", "-c", "cat ~/file"), "kept\n")
		r.ok(t, "rm", "-f", "second", "box")
	})
}

func TestImagesOfThePlugin(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		r := newFixture(t, inContainers(e))
		r.plugin = true
		r.create(t, "box", "-t", engines.BaseImage())
		res := r.run(t, "", "create", "--name", "new", "-t", "no-such:image", "shell", r.ws)
		assert.Equal(t, res.code, 1)
		assert.Equal(t, r.run(t, "", "create", "--name", "new", "--pull-template", "never", "-t", engines.BaseImage(), "shell", r.ws).code, 1)
		r.ok(t, "save", "box", "fake-test:plugin", "-o", filepath.Join(r.ws, "saved.tar"))
		t.Cleanup(func() { removeImage(t, e, "fake-test:plugin") })
		info, err := os.Stat(filepath.Join(r.ws, "saved.tar"))
		assert.NilError(t, err)
		assert.Assert(t, info.Size() > 1<<20)
	})
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(s *settings) { s.PolicyInitialised = false })
	assert.Equal(t, r.run(t, "", "policy", "init", "wrong").code, 1)
	r.ok(t, "policy", "init", "balanced")
	r.create(t, "box", "--deny-network", "api.anthropic.com")
	r.create(t, "other")
	r.ok(t, "policy", "allow", "network", "**.example.com,10.0.0.0/8:80", "--sandbox", "box")
	r.ok(t, "policy", "deny", "network", "*.evil.example.com")
	for _, tc := range []struct{ sandbox, target, want string }{
		{"", "api.anthropic.com", "Allowed"},
		{"other", "api.anthropic.com:443", "Allowed"},
		{"box", "api.anthropic.com", "Denied"},
		{"box", "a.b.example.com", "Allowed"},
		{"box", "example.com", "Allowed"},
		{"other", "example.com", "Denied"},
		{"box", "x.evil.example.com", "Denied"},
		{"box", "x.y.evil.example.com", "Allowed"},
		{"other", "api.anthropic.com:22", "Denied"},
		{"other", "archive.ubuntu.com:80", "Allowed"},
		{"other", "archive.ubuntu.com", "Denied"},
	} {
		res := r.run(t, "", "policy", "check", "network", tc.target, "--sandbox", tc.sandbox)
		assert.Equal(t, res.out, tc.want+": "+tc.target+"\n", "%v", tc)
		assert.Equal(t, res.code == 0, tc.want == "Allowed", "%v", tc)
	}
	var list struct {
		Rules []struct {
			ID, Decision string
			Resources    []string
			AppliesTo    string `json:"applies_to"`
		}
	}
	rules := func() int {
		assert.NilError(t, json.Unmarshal([]byte(r.ok(t, "policy", "ls", "--json")), &list))
		return len(list.Rules)
	}
	before := rules() // with those of the policy itself
	assert.Equal(t, list.Rules[before-3].AppliesTo+list.Rules[before-3].Decision, "sandbox:boxdeny")
	asked := r.run(t, "", "policy", "rm", "network", "--sandbox", "box", "--id", list.Rules[before-2].ID)
	assert.Equal(t, asked.code, 1, "it asks")
	r.ok(t, "policy", "rm", "network", "--force", "--sandbox", "box", "--id", list.Rules[before-2].ID)
	assert.Equal(t, rules(), before-1)
	conflict := r.run(t, "", "policy", "deny", "network", "api.anthropic.com:443")
	assert.Equal(t, conflict.code, 1, "the same scope allows it")
	assert.Equal(t, r.run(t, "", "policy", "rm", "network", "--force", "--sandbox", "box", "--resource", "*.evil.example.com").code, 1, "it is for all")
	r.ok(t, "policy", "rm", "network", "--force", "--resource", "*.evil.example.com")
	r.ok(t, "rm", "-f", "box")
	assert.Equal(t, rules(), before-3, "those of the sandbox go with it")
	assert.Assert(t, json.Valid([]byte(r.ok(t, "policy", "log", "--json"))))
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	const value = "s3cret-value"
	assert.Equal(t, r.run(t, value+"\n", "secret", "set", "anthropic").code, 0)
	assert.Equal(t, r.run(t, "", "secret", "set", "openai").code, 1, "no value")
	assert.Equal(t, r.run(t, value, "secret", "set", "github", "--sandbox", "box").code, 0)
	type entry struct{ Scope, Type, Name, Secret string }
	list := func() []entry {
		var got struct{ Secrets []entry }
		assert.NilError(t, json.Unmarshal([]byte(r.ok(t, "secret", "ls", "--json")), &got))
		return got.Secrets
	}
	assert.DeepEqual(t, list(), []entry{{"global", "service", "anthropic", "****"}, {"box", "service", "github", "****"}})
	r.create(t, "box")
	r.ok(t, "rm", "-f", "box")
	assert.Equal(t, len(list()), 1)
	assert.Equal(t, r.run(t, "", "secret", "rm", "anthropic").code, 1)
	r.Set(t, func(s *settings) { s.Version = "0.38.0" })
	assert.Equal(t, r.run(t, "", "secret", "rm", "anthropic"), result{
		0, "Cancelled\n", "Remove secret 'anthropic'? (y/N): \n",
	}, "once it was not an error")
	r.ok(t, "secret", "rm", "-f", "anthropic")
	assert.NilError(t, filepath.WalkDir(r.Dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		assert.Assert(t, !strings.Contains(string(content), value), "%s", path)
		return err
	}))
}
