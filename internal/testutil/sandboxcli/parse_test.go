package sandboxcli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func TestSettingsAreKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Load(dir)
	assert.NilError(t, err)
	assert.DeepEqual(t, s, Defaults())
	two := 2
	s.Idle = Duration(90 * time.Second)
	s.LoggedIn = false
	s.Faults = Faults{LoginLapseAfter: &two, IgnoreSIGTERM: Duration(time.Second), RemovedExit: 1}
	assert.NilError(t, s.Save(dir))
	again, err := Load(dir)
	assert.NilError(t, err)
	assert.DeepEqual(t, again, s)

	path := filepath.Join(dir, "settings.json")
	assert.NilError(t, os.WriteFile(path, []byte(`{"idle":"2s","faults":{"no_id":true}}`), 0o644))
	s, err = Load(dir)
	assert.NilError(t, err)
	want := Defaults()
	want.Idle, want.Faults.NoID = Duration(2*time.Second), true
	assert.DeepEqual(t, s, want)
	assert.NilError(t, os.WriteFile(path, []byte(`{"idle":2}`), 0o644))
	_, err = Load(dir)
	assert.ErrorContains(t, err, path)
}

func TestSince(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"0.42.0": true, "v0.42.1": true, "0.53.0-rc1": true, "1.0.0": true, "0.41.9": false, "0.9": false,
	} {
		c := call{cli: sbx, settings: Settings{Version: version}}
		assert.Equal(t, c.since(42), want, version)
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, target string
		want            bool
	}{
		{"**", "anything:1", true},
		{"a.b", "a.b", true},
		{"a.b", "a.b:443", true},
		{"a.b:443", "a.b:443", true},
		{"a.b:443", "a.b:80", false},
		{"*.b", "a.b", true},
		{"*.b", "b", false},
		{"*.b", "x.a.b", false},
		{"**.b", "x.a.b", true},
		{"**.b", "b", true},
		{"**.b", "ab", false},
		{"10.0.0.0/8", "10.1.2.3", true},
		{"10.0.0.0/8", "10.1.2.3:80", true},
		{"10.0.0.0/8", "11.1.2.3", false},
		{"10.0.0.0/8", "a.b", false},
	} {
		assert.Equal(t, matches(tc.pattern, tc.target), tc.want, "%v", tc)
	}
}

func FuzzManifest(f *testing.F) {
	digest := strings.Repeat("0123456789abcdef", 4)
	for _, seed := range []string{
		`[{"Config":"blobs/sha256/` + digest + `","RepoTags":["a:b"]}]`,
		`[{"Config":"` + digest + `.json","RepoTags":null}]`, `[]`, `null`, `{`, `[{"Config":"x"}]`,
		`[{"Config":"` + digest + `","RepoTags":[":"]}]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, manifest string) {
		images, err := readManifest(strings.NewReader(manifest), 1)
		if err != nil {
			return
		}
		for _, i := range images {
			assert.Equal(t, len(i.Digest), 64)
			if i.Reference != "" {
				again, err := normal(i.Reference)
				assert.NilError(t, err)
				assert.Equal(t, again, i.Reference)
			}
		}
	})
}

func FuzzSettings(f *testing.F) {
	content, err := json.Marshal(Defaults())
	assert.NilError(f, err)
	f.Add(string(content))
	f.Add(`{"idle":"1h","faults":{"login_lapse_after":3,"ignore_sigterm":"1s"}}`)
	f.Add(`{`)
	f.Fuzz(func(t *testing.T, content string) {
		dir := t.TempDir()
		assert.NilError(t, os.WriteFile(settingsPath(dir), []byte(content), 0o644))
		s, err := Load(dir)
		if err != nil {
			return
		}
		assert.NilError(t, s.Save(dir))
		again, err := Load(dir)
		assert.NilError(t, err)
		assert.DeepEqual(t, again, s)
	})
}

func FuzzEnvironment(f *testing.F) {
	f.Add("A=b\n# comment\n\nPATH\n", "X=y=z")
	f.Fuzz(func(t *testing.T, file, arg string) {
		for _, entry := range resolve(append(envLines(file), arg)) {
			assert.Assert(t, strings.Contains(entry, "="), "%q", entry)
		}
	})
}
