// Package termsafe sanitizes untrusted text for a terminal, which would execute
// sequences that set its title, write to the clipboard, hide text, or reply.
package termsafe

import (
	"bytes"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi/parser"
)

// scanner is a terminal's state machine over text in pieces, which may end anywhere.
// Invalid UTF-8 is U+FFFD. Unlike in a terminal, a sequence ends with its line.
type scanner struct {
	state   parser.State
	partial []byte // start of a character
}

// scan calls do with each character of the next piece and a terminal's action.
func (s *scanner) scan(piece []byte, do func(parser.Action, rune)) {
	if len(s.partial) > 0 {
		piece = append(s.partial, piece...)
	}
	for utf8.FullRune(piece) {
		r, size := utf8.DecodeRune(piece)
		piece = piece[size:]
		s.next(r, do)
	}
	s.partial = bytes.Clone(piece)
}

// end ends the text, possibly within a character.
func (s *scanner) end(do func(parser.Action, rune)) {
	if len(s.partial) > 0 {
		s.partial = nil
		s.next(utf8.RuneError, do)
	}
}

func (s *scanner) next(r rune, do func(parser.Action, rune)) {
	switch {
	case r == '\n':
		s.state = parser.GroundState
	case r >= 0x80 && r <= 0x9f: // C1 controls are equivalent to two characters
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

// inString reports whether the text is within a sequence that contains text, such as a
// title.
func (s *scanner) inString() bool {
	switch s.state {
	case parser.OscStringState, parser.DcsStringState, parser.SosStringState, parser.PmStringState, parser.ApcStringState:
		return true
	}
	return false
}
