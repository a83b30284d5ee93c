package screentest

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestRender(t *testing.T) {
	for _, tc := range []struct{ name, sent, want string }{
		{"lines", "one\r\ntwo\r\n", "one\ntwo\n"},
		{"no return", "one\ntwo", "one\n   two\n"},
		{"progress", "wait...\r\x1b[Kdone\r\n", "done\n"},
		{"overwritten", "abcdef\rxy\r\n", "xycdef\n"},
		{"colors and titles", "\x1b]0;title\x07\x1b[1;31mred\x1b[0m \x1b[?2004hplain", "red plain\n"},
		{"tabs and backspaces", "a\tb\b\bc", "a      cb\n"},
		{"cursor", "one\r\ntwo\r\n\x1b[2A\x1b[3CX\x1b[2;1HT", "oneX\nTwo\n"},
		{"erased", "one\r\ntwo\x1b[2J\x1b[Hnew", "new\n"},
		{"scrolled", strings.Repeat("x\r\n", screenRows) + "\x1b[Htop", "x\ntop\n" + strings.Repeat("x\n", screenRows-2)},
		{"wide", "日本x\rab\x1b[2CX", "ab本X\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, Render(tc.sent), tc.want)
		})
	}
}
