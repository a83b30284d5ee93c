package event

import (
	"encoding/json"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// feed decodes s in pieces of n bytes and joins the texts.
func feed(d Decoder, s string, n int) string {
	var out strings.Builder
	add := func(events []Event) {
		for _, e := range events {
			out.WriteString(e.(Text).Text)
		}
	}
	for ; len(s) > n; s = s[n:] {
		add(d.Decode([]byte(s[:n])))
	}
	add(d.Decode([]byte(s)))
	add(d.End())
	return out.String()
}

func TestPlainTextInPieces(t *testing.T) {
	for in, want := range plainTextCases {
		for n := 1; n <= len(in); n++ {
			assert.Equal(t, feed(PlainText(), in, n), want, "%q in pieces of %d bytes", in, n)
		}
	}
}

var plainTextCases = map[string]string{
	"a\n\tb é 🔧": "a\n\tb é 🔧",
	"\x1b[1;31mred\x1b[0m \x1b]0;title\x1b\\x": "red x",
	"\u009b31mred\u009d0;t\u009cx":             "redx",
	"a\xffb\xe2\x82":                           "a\uFFFDb\uFFFD",
}

func TestPlainTextDoesNotWaitForANewline(t *testing.T) {
	assert.DeepEqual(t, PlainText().Decode([]byte("Working… ")), []Event{Text{"Working… "}})
}

func TestLines(t *testing.T) {
	const stream = "one\n\n  two \r\n" + "three"
	for n := 1; n <= len(stream); n++ {
		got := feed(Lines(func(line []byte) []Event { return []Event{Text{string(line) + "|"}} }), stream, n)
		assert.Equal(t, got, "one|two|three|")
	}
}

func TestLinesSkipsTooLongLines(t *testing.T) {
	long := strings.Repeat("l", maxLine)
	stream := "a\n" + strings.Repeat("x", maxLine+1) + "\nb\n" + long + "\n" + strings.Repeat("y", 2*maxLine)
	for _, n := range []int{64 << 10, len(stream)} {
		got := feed(Lines(func(line []byte) []Event { return []Event{Text{string(line) + "|"}} }), stream, n)
		assert.Assert(t, got == "a|b|"+long+"|")
	}
}

// However the output is split, strings are truncated between characters, and what follows
// them is decoded.
func TestLinesTruncatesLongStrings(t *testing.T) {
	for _, char := range []string{"x", `\"`, `\\`, `\u00e9`} {
		for _, shift := range []string{"", "abc"} {
			stream := `{"text":"` + shift + strings.Repeat(char, 2*maxString/len(char)) + `","cost":7}` + "\n" + `{"text":"b","cost":8}`
			for _, n := range []int{64 << 10, len(stream)} {
				var costs []int
				feed(Lines(func(line []byte) []Event {
					var e struct {
						Text string
						Cost int
					}
					assert.NilError(t, json.Unmarshal(line, &e))
					assert.Assert(t, len(line) < maxString+100)
					assert.Assert(t, e.Cost == 8 || strings.HasSuffix(e.Text, "…"))
					costs = append(costs, e.Cost)
					return nil
				}), stream, n)
				assert.DeepEqual(t, costs, []int{7, 8})
			}
		}
	}
}

func FuzzPlainText(f *testing.F) {
	for in := range plainTextCases {
		f.Add(in, 1)
	}
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n >= 1 {
			assert.Equal(t, feed(PlainText(), s, n), termsafe.Strip(s))
		}
	})
}
