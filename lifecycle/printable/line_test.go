package printable

import (
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
)

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"auth/02 größer":               "auth/02 größer",
		"a\nb\tc\rd":                   "a\ufffdb\ufffdc\ufffdd",
		"\x1b[31mred\x1b]0;t\a":        "\ufffd[31mred\ufffd]0;t\ufffd",
		"\u009b2J\u202egpj":            "\ufffd2J\ufffdgpj",
		"\xff":                         "\ufffd",
		strings.Repeat("x", lineMax+5): strings.Repeat("x", lineMax) + "…",
	} {
		assert.Equal(t, Line(text), want)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("a\x1b[2Jb")
	f.Fuzz(func(t *testing.T, text string) {
		line := Line(text)
		assert.Assert(t, utf8.ValidString(line) && !strings.ContainsAny(line, "\n\r\t\x1b\x07"))
	})
}
