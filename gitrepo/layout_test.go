package gitrepo

import (
	"errors"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// A path with line breaks is never taken for a shorter one, whatever it ends with.
func TestLayoutLines(t *testing.T) {
	failed := errors.New("ambiguous argument 'HEAD'")
	for _, tc := range []struct {
		name, answer string
		err          error
		whole        bool
		branch       string
	}{
		{"a branch", "false false /r/.git .git  /r false refs/heads/a/b", nil, true, "a/b"},
		{"no branch", "false false /r/.git .git  /r false HEAD", nil, true, ""},
		{"no commit", "false false /r/.git .git  /r false HEAD", failed, true, ""},
		{"two of that name", "false false /r/.git .git  /r false", nil, true, ""},
		{"elsewhere", "false false /r/.git .git  /r false refs/tags/x", nil, true, ""},
		{"a failure after a branch", "false false /r/.git .git  /r false refs/heads/main", failed, true, ""},
		{"no work tree", "true false /r .", failed, false, ""},
		{"inside .git", "false true /r/.git .", failed, false, ""},
		{"two lines", "false false /r/.git .git  /r x false refs/heads/main", nil, false, ""},
		{"a line that looks like a branch", "false false /r/.git .git  /r refs/heads/x false", nil, false, ""},
		{"a line that looks like the next answer", "false false /r/.git .git  /r false false", failed, false, ""},
		{"the same with a branch", "false false /r/.git .git  /r false false refs/heads/main", nil, false, ""},
		{"two such lines", "false false /r/.git .git  /r false HEAD false HEAD", failed, false, ""},
		{"nothing", "", failed, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := answer{stdout: strings.ReplaceAll(tc.answer, " ", "\n") + "\n", err: tc.err}
			assert.Equal(t, isWhole(layoutLinesOf(a)), tc.whole)
			assert.Equal(t, branchOf(a), tc.branch)
		})
	}
}

// Only a URL that git would give as it stands is taken from the configuration.
func TestPlainOrigin(t *testing.T) {
	for said, want := range map[string]string{
		"remote.origin.url\nu":                                   "u",
		"remote.origin.url\nu\x00user.name\nx":                   "u",
		"remote.origin.url\nu\x00remote.origin.url\nv":           "",
		"remote.origin.url\n":                                    "",
		"remote.origin.url\nu\x00url.https://x/.insteadof\nu":    "",
		"url.https://x/.insteadof\nsomething\x00user.name\nme":   "",
		"user.name\nme":                                          "",
		"remote.origin.url\x00remote.origin.url\nu\x00core.bare": "",
	} {
		out := "file:c\x00" + strings.ReplaceAll(said, "\x00", "\x00file:c\x00") + "\x00"
		assert.Equal(t, parseConfig(out).plainOrigin(), want, "%q", said)
	}
}
