package event

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/assert"
)

func FuzzStrip(f *testing.F) {
	for _, tc := range stripCases {
		f.Add(tc.in)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := Strip(s)
		assertHarmless(t, out)
		assert.Equal(t, Strip(out), out)
	})
}

func assertHarmless(t *testing.T, s string) {
	t.Helper()
	assert.Assert(t, utf8.ValidString(s))
	for _, r := range s {
		assert.Assert(t, !unwanted(r), "%q contains %U", s, r)
	}
}

var stripCases = []struct{ name, in, want string }{
	{"plain", "a\n\tb é 🔧", "a\n\tb é 🔧"},
	{"colour", "\x1b[1;31mred\x1b[0m", "red"},
	{"private mode", "\x1b[?1049hx\x1b[?25l", "x"},
	{"title by BEL", "a\x1b]0;evil\ab", "ab"},
	{"title by ST", "a\x1b]0;evil\x1b\\b", "ab"},
	{"clipboard", "\x1b]52;c;ZXZpbA==\a", ""},
	{"unterminated title", "a\x1b]0;text", "a0;text"},
	{"device control", "\x1bPq#0\x1b\\x", "x"},
	{"C1 sequence", "\u009b31mred\u009d0;t\u009cx", "redx"},
	{"reset", "\x1bcx", "x"},
	{"character set", "\x1b(0x", "x"},
	{"lone escape", "x\x1b", "x"},
	{"escape before escape", "\x1b\x1b[31mx", "x"},
	{"carriage return and bell", "a\r\nb\a\x00\x7f", "a\nb"},
	{"not UTF-8", "a\xffb", "a\uFFFDb"},
	{"sequence in pieces", "\x1b[3", "3"},
}

// An agent can show a file that is made for it.
func TestStripTakesNoLongerForManySequences(t *testing.T) {
	began := time.Now()
	for _, one := range []string{"\x1b]", "\u009d", "\x1bP", "\x1b[1", "\x1b]a\x1b\\"} {
		Strip(strings.Repeat(one, 1<<20/len(one)))
	}
	assert.Assert(t, time.Since(began) < 10*time.Second)
	assert.Equal(t, Strip("\x1b]a\ab\x1b]c\x1b]d\u009de"), "bcde")
}

func TestStrip(t *testing.T) {
	for _, tc := range stripCases {
		t.Run(tc.name, func(t *testing.T) { assert.Equal(t, Strip(tc.in), tc.want) })
	}
}
