package gitconfig

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestSafeURLs(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://git.example/a/b.git":             "https://git.example/a/b.git",
		"https://user:secret@git.example/a/b":     "https://git.example/a/b",
		"https://token@git.example/a?private=1#x": "https://git.example/a",
		"ssh://git:secret@git.example:22/a":       "ssh://git@git.example:22/a",
		"git@git.example:a/b.git":                 "git@git.example:a/b.git",
		"git.example:a/b":                         "git.example:a/b",
		"git://git.example/a":                     "git://git.example/a",
		"ext::sh -c touch% /tmp/x":                "",
		"https::https://git.example/a":            "",
		"ssh://-oProxyCommand=x/a":                "",
		"-oProxyCommand=x:a":                      "",
		"/home/user/repo":                         "",
		"../repo":                                 "",
		"file:///home/user/repo":                  "",
		`C:\repo`:                                 "",
		"https://git.example/a\nb":                "",
		"u:secret@git.example:a/b":                "",
		"codecommit://profile@repo":               "",
	} {
		got, ok := safeURL(raw)
		assert.Check(t, is.Equal(got, want), raw)
		assert.Check(t, is.Equal(ok, want != ""), raw)
	}
}

func FuzzSafeURL(f *testing.F) {
	for _, seed := range []string{"https://u:p@h/a?b#c", "git@h:a/b", "ssh://u:p@h:1/x", "ext::sh", "-x:y", "C:\\x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, ok := safeURL(raw)
		if !ok {
			return
		}
		if strings.ContainsAny(u, "\n\x00?#") || strings.HasPrefix(u, "-") || strings.Contains(u, "::") {
			t.Fatalf("%q became %q", raw, u)
		}
		if again, ok := safeURL(u); !ok || again != u {
			t.Fatalf("%q is not stable: %q", u, again)
		}
	})
}
