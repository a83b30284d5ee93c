package gitsync

import (
	"os"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/hint"
)

// A clone gets ignored files once: what the agent makes of them stays until the list changes.
func TestIncludedFilesAreCopiedOnce(t *testing.T) {
	t.Parallel()
	c := newRepo(t).fillSandbox()
	c.write(".gitignore", ".env*\nconfig/\n")
	c.git("add", ".gitignore")
	c.git("commit", "-qm", "ignore")
	c.write(".env.test", "key=1\n")
	c.write(".env.local", "not included\n")
	c.write("config/a \"b\"", "x\n")
	c.write(".ralph/.gitignore", "*\n")
	c.write("mine.env", "not ignored\n")
	assert.NilError(t, os.Chmod(c.root+"/.env.test", 0o750))
	assert.NilError(t, os.Symlink("/etc/passwd", c.root+"/config/link"))
	var err error
	for nothing, want := range map[string]string{
		"*.env":        "no ignored file in " + c.root + ` matches "*.env"`,
		".gitignore":   "no ignored file in " + c.root + ` matches ".gitignore"`,
		"/config/link": `"config/link", which matches "/config/link", is not a regular file`,
	} {
		c.repo = c.repo.Including([]string{".env.test", nothing}, nil)
		_, err = c.repo.Push(t.Context(), c.sh)
		assert.ErrorContains(t, err, want)
		assert.Check(t, is.Contains(hint.Of(err)[0], "workspace.include"))
	}

	c.write("config/left out", "x\n")
	c.repo = c.repo.Including([]string{".env.test", "/config/*", "!left*"}, nil)
	res, err := c.repo.Push(t.Context(), c.sh)
	assert.NilError(t, err)
	assert.Check(t, is.Contains(strings.Join(res.Notes(), "\n"), "only regular files are copied to the sandbox, not config/link"))
	assert.DeepEqual(t, res.Included, []string{".env.test", `config/a "b"`})
	assert.Equal(t, c.inSandbox(`cat .env.test config/*; stat -c %a .env.test; ls -A | grep env; ls config`), "key=1\nx\n750\n.env.test\na \"b\"")
	assert.Equal(t, c.inSandbox("git status --porcelain"), "")

	c.inSandbox("echo agent > .env.test")
	c.write(".env.test", "key=2\n")
	res, err = c.repo.Push(t.Context(), c.sh)
	assert.NilError(t, err)
	assert.Equal(t, len(res.Included), 0)
	assert.Equal(t, c.inSandbox("cat .env.test"), "agent")

	// All files of another list are copied.
	c.repo = c.repo.Including([]string{".env.test"}, []string{".env.l*", "missing"})
	_, done, err := c.repo.PushUnchanged(t.Context(), c.sh)
	assert.NilError(t, err)
	assert.Check(t, !done)
	c.start()
	assert.Equal(t, c.inSandbox("cat .env.test .env.local"), "key=2\nnot included")
}

// A failed check that needs an ignored file names it.
func TestNamedIgnoredFiles(t *testing.T) {
	t.Parallel()
	w := newRepo(t).fillSandbox()
	w.write(".gitignore", ".env*\nnode_modules/\n*.pem\n")
	w.write(".env.test", "x\n")
	w.write(".env.local", "x\n")
	w.write("certs/readme", "x\n")
	w.write("web/index.js", "x\n")
	w.git("add", "certs/readme", "web/index.js")
	w.git("commit", "-qm", "web")
	w.write("certs/ca.pem", "x\n")
	w.write("web/node_modules/a/b.js", "x\n")
	w.repo = w.repo.Including([]string{".env.local"}, nil)
	for text, want := range map[string][]string{
		"":                                           nil,
		"open .env: no such file or directory":       nil,
		"b.js, a, web":                               nil,
		"open /src/.env.test: no such file":          {".env.test"},
		"error in .env.test\nls: x: not found":       nil,
		"cannot find '.env.local'":                   nil,
		"web/node_modules: Not Found (certs/ca.pem)": {"certs/ca.pem", "web/node_modules/"},
		"check \"make test\" failed: .env.testing":   nil,
	} {
		named, err := w.repo.NamedIgnored(t.Context(), text)
		assert.NilError(t, err)
		assert.DeepEqual(t, slices.Concat(named), want)
	}
}
