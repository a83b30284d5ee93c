package termsafe

import (
	"bytes"
	"errors"
	"strconv"
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

func TestWriterFiltersSequences(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"text", "Grüße, 世界 🐢\n\tand more\r\n", "Grüße, 世界 🐢\n\tand more\r\n"},
		{"colour", "\x1b[1;31mwarm\x1b[0m \x1b[01;96;4mx\x1b[m", "\x1b[1;31mwarm\x1b[0m \x1b[01;96;4mx\x1b[m"},
		{"concealed", "\x1b[8mrm -rf\x1b[28m \x1b[0;08;1mx", "rm -rf \x1b[0;1mx\x1b[0m"},
		{"equal colours", "\x1b[31;41mx\x1b[0m\x1b[38;5;16;48;5;16my\x1b[38;2;1;2;3;48;2;1;2;3mz", "\x1b[31mx\x1b[0myz"},
		{"the background's colour", "\x1b[30ma\x1b[37mb\x1b[90mc\x1b[97md\x1b[38:2::1:2:3me", "abcde"},
		{"a number is no attribute", "\x1b[38;5;1mx\x1b[48;2;7;4;9my\x1b[38;5mz\x1b[38m", "xyz"},
		{"blinking and fonts", "\x1b[5;6;11mx", "x"},
		{"unbalanced", "\x1b[7;4;33mx", "\x1b[7;4;33mx\x1b[0m"},
		{"over lines", "\x1b[31mx\ny\x1b[m\n", "\x1b[31mx\ny\x1b[m\n"},
		{"a line made anew", "\r\x1b[K12 %", "\r\x1b[K12 %"},
		{"a status line below", "\r\x1b[Jtask 1\r\x1b[1J\x1b[3J", "\r\x1b[Jtask 1\r"},
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
		{"C1 as bytes, which are no UTF-8", "a\x9b2Jb\x9d0;t\x9cc", "a\ufffd2Jb\ufffd0;t\ufffdc"},
		{"C1 in UTF-8", "a\u009b2Jb\u009d0;t\u009cc\u0085d", "abcd"},
		{"Latin-1", "gr\xfc\xdfe \xe2\x82\ne", "gr\ufffd\ufffde \ufffd\ufffd\ne"},
		{"direction", "a\u202eb\u2066c\u200fd", "a\ufffdb\ufffdc\ufffdd"},
		{"an endless string ends with its line", "a\x1b]0;never\nb", "a\nb"},
		{"broken colour", "a\x1b\x1b[mb\x1b[3\x18 m", "a\x1b[mb m"},
		{"an endless colour", "a\x1b[" + strings.Repeat("1;", 200) + "mb", "ab"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, cleaned(t, tc.in), tc.want)
			// In pieces that end anywhere.
			assert.DeepEqual(t, shown(t, cleaned(t, strings.Split(tc.in, "")...)), shown(t, tc.want))
			var bytewise []string
			for i := range len(tc.in) {
				bytewise = append(bytewise, tc.in[i:i+1])
			}
			assert.DeepEqual(t, shown(t, cleaned(t, bytewise...)), shown(t, tc.want))
		})
	}
}

// shown is the state of a terminal after output: every character with its style. At the
// end the style must be the default.
func shown(t testing.TB, out string) (characters []string) {
	t.Helper()
	var now style
	for len(out) > 0 {
		if strings.HasPrefix(out, "\x1b[") {
			end := strings.IndexAny(out, "mKJ")
			if out[end] == 'm' {
				now.apply(out[len("\x1b["):end])
			} else {
				characters = append(characters, out[:end+1])
			}
			out = out[end+1:]
			continue
		}
		r, size := utf8.DecodeRuneInString(out)
		characters = append(characters, now.sequence()+string(r))
		out = out[size:]
	}
	assert.Equal(t, now, style{}, "the style of an output goes on after it")
	return characters
}

// Other programs print between two writes.
func TestEveryWriteEndsInTheDefaultStyle(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	for _, tc := range [][2]string{
		{"\x1b[31;7mred", "\x1b[31;7mred\x1b[0m"},
		{" more", "\x1b[7;31m more\x1b[0m"},
		{"\n\x1b[27m", "\x1b[7;31m\n\x1b[27m\x1b[0m"},
		{"\x1b[0mend", "\x1b[31m\x1b[0mend"},
		{".", "."},
	} {
		out.Reset()
		_, err := w.Write([]byte(tc[0]))
		assert.NilError(t, err)
		assert.Equal(t, out.String(), tc[1])
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestWriteReturnsErrorsOfTheOutput(t *testing.T) {
	_, err := NewWriter(broken{}).Write([]byte("a"))
	assert.Error(t, err, "gone")
}

// FuzzWriter checks that only allowed control characters pass, that no text is hidden,
// and that the last style is the default, however the input is split.
func FuzzWriter(f *testing.F) {
	f.Add([]byte("a\x1b]52;c;eA==\x07b\x1b[31mred\x1b[0m\n"), 3)
	f.Add([]byte("\xc3\x1b[2J\xe2\x80\xae\x90q\x9c"), 1)
	f.Add([]byte("a\x1b[8mb\x1b[30;40;38;5;0;7mc\x1b[;1"), 5)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		cut = min(max(cut, 0), len(in))
		out := cleaned(t, string(in[:cut]), string(in[cut:]))
		assert.DeepEqual(t, shown(t, out), shown(t, cleaned(t, string(in))))
		assert.Assert(t, utf8.ValidString(out))
		for i, r := range out {
			if r == ansiEscape {
				end := strings.IndexAny(out[i:], "mK")
				assert.Assert(t, end > 1 && strings.Trim(out[i+2:i+end], "0123456789:;") == "", "%q", out[i:])
				if out[i+end] == 'm' {
					assert.Assert(t, visible(out[i+2:i+end]), "%q", out[i:i+end])
				}
				continue
			}
			assert.Assert(t, !unicode.IsControl(r) || strings.ContainsRune("\n\r\t", r), "%q", out)
			assert.Assert(t, !unicode.Is(unicode.Bidi_Control, r), "%q", out)
		}
	})
}

// visible reports whether text is readable on any background.
func visible(parameters string) bool {
	for p := range strings.SplitSeq(parameters, ";") {
		n, err := strconv.Atoi("0" + p)
		if err != nil || n == 5 || n == 6 || n == 8 || n == 30 || n == 37 || n == 38 || n >= 40 && n <= 90 || n >= 97 {
			return false
		}
	}
	return true
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
