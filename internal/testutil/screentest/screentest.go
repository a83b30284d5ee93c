// Package screentest renders what a program sends to a terminal.
package screentest

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// screen is what a terminal draws that is as wide as its longest line: where
// lines break depends on the length of names. All that has scrolled away is kept.
type screen struct {
	rows     [][]string // one character each
	row, col int
}

const screenRows = 24

// Render returns the rows of a screen that was sent this, without the blanks and
// the empty rows at their ends.
func Render(sent string) string {
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
// cursor or about text. Colors and modes leave no trace.
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
