package termsafe

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/assert"
)

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"auth/02 größer":                    "auth/02 größer",
		"  a\nb\t c\rd\n":                   "a b cd",
		"\x1b[31mred\x1b]0;t\a":             "red",
		"\u009b2J\u202egpj":                 "\ufffdgpj",
		"\xff":                              "\ufffd",
		strings.Repeat("\u00fc", maxLine+5): strings.Repeat("\u00fc", maxLine) + "…",
		strings.Repeat("x", maxLine):        strings.Repeat("x", maxLine),
	} {
		assert.Equal(t, Line(text), want)
	}
}

func TestShorten(t *testing.T) {
	assert.Equal(t, Shorten("größer", 6), "größer")
	assert.Equal(t, Shorten("größer", 3), "grö…")
	assert.Equal(t, Shorten("a\xff\xffb", 3), "a…")
	assert.Equal(t, Tail("größer", 8), "größer")
	assert.Equal(t, Tail("größer", 2), "…er")
	assert.Equal(t, Tail("größer", 3), "…er") // in the middle of a character
}

func TestFirstLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "", " one\n": "one", "one:": "one:", "one\ntwo": "one…", "check failed:\r\noutput": "check failed…", "\n\none\n\ntwo": "one…",
	} {
		assert.Equal(t, FirstLine(text), want)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("a\x1b[2Jb")
	f.Fuzz(func(t *testing.T, text string) {
		line := Line(text)
		assert.Assert(t, utf8.ValidString(line) && !strings.ContainsAny(line, "\n\r\t\x1b\x07"))
	})
}

var stripCases = []struct{ name, in, want string }{
	{"plain", "a\n\tb é 🔧", "a\n\tb é 🔧"},
	{"colour", "\x1b[1;31mred\x1b[0m", "red"},
	{"private mode", "\x1b[?1049hx\x1b[?25l", "x"},
	{"title by BEL", "a\x1b]0;evil\ab", "ab"},
	{"title by ST", "a\x1b]0;evil\x1b\\b", "ab"},
	{"clipboard", "\x1b]52;c;ZXZpbA==\a", ""},
	{"a title without end ends with its line", "a\x1b]0;ü\nb", "a\nb"},
	{"device control", "\x1bPq#0\x1b\\x", "x"},
	{"C1 sequence", "\u009b31mred\u009d0;t\u009cx", "redx"},
	{"reset", "\x1bcx", "x"},
	{"character set", "\x1b(0x", "x"},
	{"lone escape", "x\x1b", "x"},
	{"escape before escape", "\x1b\x1b[31mx", "x"},
	{"a sequence without end ends with its line", "\x1b[3\nmx", "\nmx"},
	{"a character ends a sequence", "\x1b[3üx", "üx"},
	{"carriage return and bell", "a\r\nb\a\x00\x7f", "a\nb"},
	{"not UTF-8", "a\xffb\xc3\x1b[31mc\x9bd", "a\uFFFDb\uFFFDc\uFFFDd"},
}

func TestStrip(t *testing.T) {
	for _, tc := range stripCases {
		t.Run(tc.name, func(t *testing.T) { assert.Equal(t, Strip(tc.in), tc.want) })
	}
}

func TestStripperInPieces(t *testing.T) {
	for _, tc := range stripCases {
		var s Stripper
		var out strings.Builder
		for i := range len(tc.in) {
			out.WriteString(s.Strip([]byte{tc.in[i]}))
		}
		assert.Equal(t, out.String()+s.End(), tc.want, tc.name)
	}
}

// Agents can print crafted files.
func TestStripIsLinearInSequences(t *testing.T) {
	began := time.Now()
	for _, one := range []string{"\x1b]", "\u009d", "\x1bP", "\x1b[1", "\x1b]a\x1b\\"} {
		Strip(strings.Repeat(one, 1<<20/len(one)))
	}
	assert.Assert(t, time.Since(began) < 10*time.Second)
}

func FuzzStrip(f *testing.F) {
	for _, tc := range stripCases {
		f.Add(tc.in)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out := Strip(text)
		assert.Assert(t, utf8.ValidString(out) && !strings.ContainsFunc(out, stripped), "%q", out)
		assert.Equal(t, Strip(out), out)
	})
}
