//go:build unix

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
)

// What a terminal draws, compared with golden files.

// assertScreen compares a terminal's screen, with what has scrolled off at the top, with
// a golden file. What differs between runs is replaced first: names, directories,
// times. Drivers with other messages have their own files.
func (w *world) assertScreen(t *testing.T, sent, name string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join("testdata", "screens", name+"."+w.driver+".golden")); err == nil {
		name += "." + w.driver
	}
	golden.Assert(t, render(w.normalize(sent)), filepath.Join("screens", name+".golden"))
}

// normalize replaces what differs between worlds and between runs.
func (w *world) normalize(sent string) string {
	sent = strings.NewReplacer(w.dir, "/home/una", path.Base(w.slug), "shop").Replace(sent)
	for _, r := range []struct{ is, as string }{
		{`\b\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?|\b\d{8}-\d{6}\b`, "DATE"},
		{`\b(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b`, "TIME"},
		{`TIME +`, "TIME  "}, // in columns, too
		{`\b[0-9a-f]{7,64}\b`, "HASH"},
		{`(Agent:  |deregistered )[0-9a-f]{4}\b`, "${1}AGENT"},
		{fmt.Sprintf(`\b%d\b`, w.uid), "UID"},
	} {
		sent = regexp.MustCompile(r.is).ReplaceAllString(sent, r.as)
	}
	return sent
}

// screen is what a terminal draws that is as wide as its longest line: where
// lines break depends on the length of names. All that has scrolled away is kept.
type screen struct {
	rows     [][]string // one character each
	row, col int
}

const screenRows = 24

// render returns the rows of a screen that was sent this, without the blanks and
// the empty rows at their ends.
func render(sent string) string {
	s := &screen{rows: make([][]string, 1)}
	parser, state := ansi.NewParser(), byte(0)
	for len(sent) > 0 {
		seq, width, n, next := ansi.DecodeSequence(sent, state, parser)
		sent, state = sent[n:], next
		if width == 0 {
			s.apply(seq, parser)
			continue
		}
		s.put(seq)
		for range width - 1 {
			s.put("")
		}
	}
	var out strings.Builder
	for _, row := range s.rows {
		out.WriteString(strings.TrimRight(strings.Join(row, ""), " ") + "\n")
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// put writes a character where the cursor is.
func (s *screen) put(character string) {
	row := s.rows[s.row]
	for len(row) <= s.col {
		row = append(row, " ")
	}
	row[s.col] = character
	s.rows[s.row] = row
	s.col++
}

// apply does what a control character or sequence says, as far as it is about the
// cursor or about text. Colours and modes leave no trace.
func (s *screen) apply(seq string, parser *ansi.Parser) {
	switch seq {
	case "\r":
		s.col = 0
	case "\n":
		s.move(s.row+1, s.col)
	case "\b":
		s.move(s.row, s.col-1)
	case "\t":
		s.col = s.col/8*8 + 8
	}
	if !strings.HasPrefix(seq, "\x1b[") {
		return
	}
	number := func(i, missing int) int {
		n, _ := parser.Param(i, missing)
		return max(n, missing)
	}
	switch cmd := ansi.Cmd(parser.Command()); {
	case cmd.Prefix() != 0:
	case cmd.Final() == 'A':
		s.move(s.row-number(0, 1), s.col)
	case cmd.Final() == 'B':
		s.move(s.row+number(0, 1), s.col)
	case cmd.Final() == 'C':
		s.move(s.row, s.col+number(0, 1))
	case cmd.Final() == 'D':
		s.move(s.row, s.col-number(0, 1))
	case cmd.Final() == 'G':
		s.move(s.row, number(0, 1)-1)
	case cmd.Final() == 'H':
		s.move(s.top()+number(0, 1)-1, number(1, 1)-1)
	case cmd.Final() == 'K':
		s.eraseRow(number(0, 0))
	case cmd.Final() == 'J':
		s.erase(number(0, 0))
	}
}

// top is the first row that has not scrolled away.
func (s *screen) top() int { return max(0, len(s.rows)-screenRows) }

func (s *screen) move(row, col int) {
	s.row, s.col = max(row, s.top()), max(col, 0)
	for len(s.rows) <= s.row {
		s.rows = append(s.rows, nil)
	}
}

// eraseRow erases the row after the cursor, before it, or all of it.
func (s *screen) eraseRow(how int) {
	row := s.rows[s.row]
	switch {
	case how == 0 && s.col < len(row):
		s.rows[s.row] = row[:s.col]
	case how == 1:
		for i := range row[:min(s.col+1, len(row))] {
			row[i] = " "
		}
	case how == 2:
		s.rows[s.row] = nil
	}
}

// erase erases the screen after the cursor, before it, or all of it.
func (s *screen) erase(how int) {
	s.eraseRow(how)
	from, to := s.row+1, len(s.rows)
	switch how {
	case 1:
		from, to = s.top(), s.row
	case 2:
		from = s.top()
	}
	for i := from; i < to; i++ {
		s.rows[i] = nil
	}
}

func TestScreen(t *testing.T) {
	for _, tc := range []struct{ name, sent, want string }{
		{"lines", "one\r\ntwo\r\n", "one\ntwo\n"},
		{"no return", "one\ntwo", "one\n   two\n"},
		{"progress", "wait...\r\x1b[Kdone\r\n", "done\n"},
		{"overwritten", "abcdef\rxy\r\n", "xycdef\n"},
		{"colours and titles", "\x1b]0;title\x07\x1b[1;31mred\x1b[0m \x1b[?2004hplain", "red plain\n"},
		{"tabs and backspaces", "a\tb\b\bc", "a      cb\n"},
		{"cursor", "one\r\ntwo\r\n\x1b[2A\x1b[3CX\x1b[2;1HT", "oneX\nTwo\n"},
		{"erased", "one\r\ntwo\x1b[2J\x1b[Hnew", "new\n"},
		{"scrolled", strings.Repeat("x\r\n", screenRows) + "\x1b[Htop", "x\ntop\n" + strings.Repeat("x\n", screenRows-2)},
		{"wide", "日本x\rab\x1b[2CX", "ab本X\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Equal(t, render(tc.sent), tc.want)
		})
	}
	w := &world{dir: "/tmp/e2e-1/world-2", slug: "e2e/abc", uid: 1234}
	got := w.normalize("/tmp/e2e-1/world-2/src/abc ralph-e2e-abc-main 1m3.5s   315ms 2026-01-02 03:04:05 20260102-030405 0be7aca 1234 " + strings.Join(slices.Repeat([]string{"0a"}, 32), ""))
	assert.Equal(t, got, "/home/una/src/shop ralph-e2e-shop-main TIME  TIME  DATE DATE HASH UID HASH")
}

// shortPrompt makes the prompt of a shell one that fits into any line: where it
// breaks depends on the length of names, and on when the shell learns how wide the
// terminal is.
const shortPrompt = "PS1='$ '; clear\r"

// types presses keys at the next prompt of a shell, so that they are drawn once. It
// is another prompt than that of the line before, whose end was drawn since, and has
// a line of its own: a part of [shortPrompt] looks like the end of a long one.
func (tm *terminal) types(t *testing.T, keys string) {
	t.Helper()
	var sent string
	eventually(t, func() error {
		sent = tm.screen.String()
		shown := render(sent)
		prompted := strings.HasSuffix(shown, "$\n")
		if tm.typed > 0 {
			prompted = strings.HasSuffix("\n"+shown, "\n$\n") && strings.Contains(sent[tm.typed:], "\n")
		}
		if !prompted {
			return errors.New("no prompt: " + shown)
		}
		return nil
	})
	tm.typed = len(sent)
	tm.press(t, keys)
}

// dialogue runs a command at a terminal and answers what it asks.
func (w *world) dialogue(t *testing.T, args string, dialogue ...string) result {
	t.Helper()
	tm := w.shell(t, args)
	tm.answer(t, dialogue...)
	return tm.wait(t)
}

// answer waits for questions and answers them, by turns.
func (tm *terminal) answer(t *testing.T, dialogue ...string) {
	t.Helper()
	for i := 0; i < len(dialogue); i += 2 {
		tm.screen.WaitFor(t, dialogue[i])
		tm.press(t, dialogue[i+1]+"\r")
	}
}
