package termsafe

import (
	"os/exec"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestName(t *testing.T) {
	for name, want := range map[string]string{
		"a b/é.txt":           "a b/é.txt",
		"x\rWarning: nothing": `"x\rWarning: nothing"`,
		"x\x1b[2K":            `"x\x1b[2K"`,
		"x\nHint: run it":     `"x\nHint: run it"`,
		"x\u202etxt":          `"x\u202etxt"`,
		"\xff":                `"\xff"`,
	} {
		assert.Equal(t, Name(name), want)
	}
}

// A shell reads each word as the name.
func TestWord(t *testing.T) {
	for _, name := range []string{"a/b.txt", "a b", "it's", "a;touch x", "$(touch x)", "`x`", "a\nb'\"\\", "\x1b[2K", "é", "", "HEAD...x^"} {
		word := Word(name)
		assert.Check(t, !strings.ContainsAny(word, "\r\n\x1b"), "%q", word)
		out, err := exec.Command("bash", "-c", "printf %s "+word).Output()
		assert.NilError(t, err, word)
		assert.Check(t, string(out) == name, "%q: %q", name, out)
	}
}
