// Package termsafe lets text and colour through to a terminal, and nothing
// else. What an agent prints is a stranger's: a terminal would obey sequences
// in it that set its title, write to the clipboard, hide text, or answer.
package termsafe

import (
	"bytes"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi/parser"
)

// scanner is a terminal's state machine over text that comes in pieces, cut
// anywhere. Bytes that are not UTF-8 count as U+FFFD. A sequence that is never
// ended does not swallow the lines after it: each ends with its line.
type scanner struct {
	state parser.State
	torn  []byte // the beginning of a character
}

// scan calls do with each character of the next piece, and the action that a
// terminal would take.
func (s *scanner) scan(piece []byte, do func(parser.Action, rune)) {
	if len(s.torn) > 0 {
		piece = append(s.torn, piece...)
	}
	for utf8.FullRune(piece) {
		r, size := utf8.DecodeRune(piece)
		piece = piece[size:]
		s.next(r, do)
	}
	s.torn = bytes.Clone(piece)
}

// end ends the text, of which a character may be torn off.
func (s *scanner) end(do func(parser.Action, rune)) {
	if len(s.torn) > 0 {
		s.torn = nil
		s.next(utf8.RuneError, do)
	}
}

func (s *scanner) next(r rune, do func(parser.Action, rune)) {
	switch {
	case r == '\n':
		s.state = parser.GroundState
	case r >= 0x80 && r <= 0x9f: // C1 controls are short for two characters
		s.next('\x1b', do)
		r -= 0x40
	case r < utf8.RuneSelf:
	case s.inString():
		return
	default:
		s.state = parser.GroundState
		do(parser.PrintAction, r)
		return
	}
	state, action := parser.Table.Transition(s.state, byte(r))
	s.state = state
	do(action, r)
}

// inString reports whether the text is within a sequence that has a text of its
// own, such as a title.
func (s *scanner) inString() bool {
	switch s.state {
	case parser.OscStringState, parser.DcsStringState, parser.SosStringState, parser.PmStringState, parser.ApcStringState:
		return true
	}
	return false
}
