package printable

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"gotest.tools/v3/assert"
)

func cleaned(t testing.TB, parts ...string) string {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out)
	for _, part := range parts {
		n, err := w.Write([]byte(part))
		assert.NilError(t, err)
		assert.Equal(t, n, len(part))
	}
	return out.String()
}

func TestWhatPasses(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"text", "Grüße, 世界 🐢\n\tand more\r\n", "Grüße, 世界 🐢\n\tand more\r\n"},
		{"colour", "\x1b[1;38;5;208mwarm\x1b[0m \x1b[38:2::1:2:3mx\x1b[m", "\x1b[1;38;5;208mwarm\x1b[0m \x1b[38:2::1:2:3mx\x1b[m"},
		{"a line made anew", "\r\x1b[K12 %", "\r\x1b[K12 %"},
		{"title", "a\x1b]0;mine\x07b", "ab"},
		{"clipboard", "a\x1b]52;c;cm0gLXJmIH4=\x1b\\b", "ab"},
		{"link", "\x1b]8;;https://evil.example\x1b\\good.example\x1b]8;;\x1b\\", "good.example"},
		{"device control", "a\x1bP+q544e\x1b\\b", "ab"},
		{"application string", "a\x1b_Gf=100\x1b\\b\x1b^x\x1b\\c\x1bXy\x1b\\d", "abcd"},
		{"cursor", "a\x1b[2J\x1b[H\x1b[10;10Hb\x1b7\x1b8\x1b[A", "ab"},
		{"modes", "\x1b[?1049h\x1b[?25la\x1b[!p\x1bcb", "ab"},
		{"questions", "a\x1b[c\x1b[6n\x1b[>qb", "ab"},
		{"private m is no colour", "a\x1b[>4;2mb", "ab"},
		{"bell and backspace", "a\ab\bc\x00\x7f", "abc"},
		{"other character set", "a\x1b(0b\x0ec\x0f", "abc"},
		{"C1 as bytes", "a\x9b2Jb\x9d0;t\x9cc", "abc"},
		{"C1 in UTF-8", "a\u009b2Jb", "a\ufffd2Jb"},
		{"direction", "a\u202eb\u2066c\u200fd", "a\ufffdb\ufffdc\ufffdd"},
		{"an endless string ends with its line", "a\x1b]0;never\nb", "a\nb"},
		{"broken colour", "a\x1b\x1b[mb\x1b[3\x18 m", "ab m"},
		{"an endless colour", "a\x1b[" + strings.Repeat("1;", 200) + "mb", "ab"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, cleaned(t, tc.in), tc.want)
			// It comes in pieces, cut anywhere.
			assert.Equal(t, cleaned(t, strings.Split(tc.in, "")...), tc.want)
			var bytewise []string
			for i := range len(tc.in) {
				bytewise = append(bytewise, tc.in[i:i+1])
			}
			assert.Equal(t, cleaned(t, bytewise...), tc.want)
		})
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestABrokenOutputIsTold(t *testing.T) {
	_, err := NewWriter(broken{}).Write([]byte("a"))
	assert.Error(t, err, "gone")
}

// FuzzWriter: whatever comes, no control character passes but those that are
// allowed, however the input is cut.
func FuzzWriter(f *testing.F) {
	f.Add([]byte("a\x1b]52;c;eA==\x07b\x1b[31mred\x1b[0m\n"), 3)
	f.Add([]byte("\xc3\x1b[2J\xe2\x80\xae\x90q\x9c"), 1)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		cut = min(max(cut, 0), len(in))
		out := cleaned(t, string(in[:cut]), string(in[cut:]))
		assert.Equal(t, out, cleaned(t, string(in)))
		assert.Assert(t, utf8.ValidString(out))
		for i, r := range out {
			if r == ansiEscape {
				end := strings.IndexAny(out[i:], "mK")
				assert.Assert(t, end > 1 && strings.Trim(out[i+2:i+end], "0123456789:;") == "", "%q", out[i:])
				continue
			}
			assert.Assert(t, !unicode.IsControl(r) || strings.ContainsRune("\n\r\t", r), "%q", out)
			assert.Assert(t, !unicode.Is(unicode.Bidi_Control, r), "%q", out)
		}
	})
}

const ansiEscape = '\x1b'

func BenchmarkWriter(b *testing.B) {
	line := []byte(strings.Repeat("some \x1b[32mgreen\x1b[0m output of a program\n", 100))
	b.SetBytes(int64(len(line)))
	w := NewWriter(&bytes.Buffer{})
	for b.Loop() {
		w.out.(*bytes.Buffer).Reset()
		_, _ = w.Write(line)
	}
}
