package projectimage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

func TestParseSecret(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TOKEN", "s3cret")
	t.Setenv("EMPTY", "")
	assert.NilError(t, os.WriteFile("key", []byte("s3cret"), 0o600))
	assert.NilError(t, os.WriteFile("a,b", []byte("s3cret"), 0o600))
	assert.NilError(t, os.WriteFile("big", make([]byte, 500<<10+1), 0o600))
	assert.NilError(t, os.Mkdir("folder", 0o700))
	for _, tc := range []struct {
		text string
		want Secret
	}{
		{"id=a,src=key", Secret{ID: "a", FilePath: "key"}},
		{"id=a,source=key", Secret{ID: "a", FilePath: "key"}},
		{"type=file,src=key,id=a", Secret{ID: "a", FilePath: "key"}},
		{`id=a,"src=a,b"`, Secret{ID: "a", FilePath: "a,b"}},
		{"id=a,env=TOKEN", Secret{ID: "a", Env: "TOKEN"}},
		{"ID=a,ENV=TOKEN", Secret{ID: "a", Env: "TOKEN"}},
		{"type=env,id=a,src=TOKEN", Secret{ID: "a", Env: "TOKEN"}},
		{"id=a,env=EMPTY", Secret{ID: "a", Env: "EMPTY"}},
		{"id=TOKEN", Secret{ID: "TOKEN", Env: "TOKEN"}},
		{"id=key", Secret{ID: "key", FilePath: "key"}},
	} {
		t.Run(tc.text, func(t *testing.T) {
			got, err := ParseSecret(tc.text)
			assert.NilError(t, err)
			assert.DeepEqual(t, got, tc.want)
		})
	}
	for _, tc := range []struct{ text, want string }{
		{"", "--secret: invalid CSV"},
		{"s3cret", "--secret: invalid field: want KEY=VALUE"},
		{"id=a,s3cret", "--secret: invalid field: want KEY=VALUE"},
		{"id=a,value=s3cret", "--secret: unknown key: use id, src or env"},
		{"src=key", "--secret: id is missing"},
		{"id=,src=key", "--secret: id is missing"},
		{"id=a,src=key,env=TOKEN", "--secret: src and env are mutually exclusive"},
		{"type=vault,id=a", "--secret: type must be file or env"},
		{`id=a,"src=key`, "--secret: invalid CSV"},
		{"id=a,env=NONE", "--secret id=a: no environment variable NONE"},
		{"id=a,src=none", "--secret id=a: stat none: no such file or directory"},
		{"id=none", "--secret id=none: stat none: no such file or directory"},
		{"id=a,src=folder", "--secret id=a: folder is a directory, not a regular file"},
		{"id=a,src=big", "--secret id=a: big is larger than 500 KiB"},
	} {
		t.Run(tc.text, func(t *testing.T) {
			_, err := ParseSecret(tc.text)
			assert.Error(t, err, tc.want)
			assert.Assert(t, !strings.Contains(err.Error(), "s3cret"))
		})
	}
}

func FuzzReadSecret(f *testing.F) {
	for _, seed := range []string{"id=a,src=key", "id=a,env=TOKEN", `id=a,"src=a,b"`, "type=env,id=a,src=b", "s3cret", `"`, ",", "=", "id=a\nsrc=b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		secret, err := readSecret(text)
		if err != nil {
			assert.Equal(t, secret, Secret{})
			return
		}
		assert.Assert(t, secret.ID != "")
		assert.Assert(t, secret.Env == "" || secret.FilePath == "")
		for _, part := range []string{secret.ID, secret.Env, secret.FilePath} {
			// In quotes, two of them stand for one, and CRLF is LF.
			assert.Assert(t, cmp.Contains(strings.ReplaceAll(strings.ReplaceAll(text, `""`, `"`), "\r\n", "\n"), strings.ReplaceAll(part, `""`, `"`)))
		}
	})
}

func TestASecretThatIsGoneFailsTheBuild(t *testing.T) {
	b, engine, _ := newFake(t, map[string]string{"debian:bookworm-slim": "sha256:4"})
	b.Secrets = []Secret{{ID: "a", FilePath: filepath.Join(t.TempDir(), "none")}}
	_, err := b.Ensure(t.Context(), Request{Agent: "shell"})
	assert.ErrorContains(t, err, "none: no such file or directory")
	assert.Assert(t, !strings.Contains(strings.Join(engine.calls, " "), "hijack"))
}
