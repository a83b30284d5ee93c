package event

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Decoder reads an agent's output piece by piece. It keeps state, so each run
// of an agent needs a new one.
type Decoder interface {
	// Decode takes the next piece, of any length and cut anywhere, and returns
	// what it reports. The piece may be reused afterwards.
	Decode(piece []byte) []Event
	// End is called once, behind the last piece, and returns what is left.
	End() []Event
}

// Bounds of one line, in bytes. A longer string is cut off, so that the figures
// beside it survive; a line that is still longer than maxLine is skipped.
const (
	maxString = 1 << 20
	maxLine   = 16 << 20
)

// Lines returns a decoder that hands out whole lines of JSON, without their
// newline and without blanks around them. Empty lines are left out, and very long
// strings are cut off. The line given to decode is reused after it returns.
func Lines(decode func(line []byte) []Event) Decoder { return &lines{decode: decode} }

type lines struct {
	decode  func(line []byte) []Event
	begun   []byte // of the present line
	quoted  quoted
	skipped bool // the present line is too long
}

func (l *lines) Decode(piece []byte) []Event {
	var events []Event
	for {
		part, rest, whole := bytes.Cut(piece, []byte("\n"))
		if !whole {
			l.keep(part)
			return events
		}
		if len(l.begun) == 0 && !l.skipped && len(part) <= maxString {
			events = append(events, l.line(part)...)
		} else {
			l.keep(part)
			events = append(events, l.line(l.begun)...)
		}
		l.begun, l.quoted, l.skipped = l.begun[:0], quoted{}, false
		piece = rest
	}
}

func (l *lines) keep(part []byte) {
	if l.skipped {
		return
	}
	if l.begun = l.quoted.appendCut(l.begun, part); len(l.begun) > maxLine {
		l.begun, l.skipped = nil, true
	}
}

func (l *lines) line(line []byte) []Event {
	line = bytes.TrimSpace(line)
	if l.skipped || len(line) == 0 {
		return nil
	}
	return l.decode(line)
}

func (l *lines) End() []Event { return l.line(l.begun) }

// PlainText returns a decoder for agents that print nothing but text.
func PlainText() Decoder { return &plainText{} }

type plainText struct{ held []byte }

// maxHeld bounds how much of an unfinished control sequence waits for its end.
const maxHeld = 4096

func (p *plainText) Decode(piece []byte) []Event {
	all := append(p.held, piece...)
	whole := len(all) - unfinished(all)
	p.held = bytes.Clone(all[whole:])
	return texts(all[:whole])
}

func (p *plainText) End() []Event { return texts(p.held) }

func texts(b []byte) []Event {
	if s := Strip(string(b)); s != "" {
		return []Event{Text{s}}
	}
	return nil
}

// unfinished returns the length of what has begun at the end of b and may go
// on in the next piece: a control sequence, or a rune.
func unfinished(b []byte) int {
	torn := tornRune(b)
	s := string(b[:len(b)-torn])
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r != '\x1b' && (r < 0x80 || r > 0x9f):
			i += size
		case complete(s[i:]):
			n, _ := sequenceLen(s[i:], r, size, false)
			i += n
		case len(s)-i > maxHeld:
			return torn
		default:
			return len(b) - i
		}
	}
	return torn
}

// tornRune returns the length of a rune at the end of b that is not whole.
func tornRune(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// complete says whether the control sequence at the start of s has its end
// in s.
func complete(s string) bool {
	r, size := utf8.DecodeRuneInString(s)
	kind := r - 0x40
	if r == '\x1b' {
		i := 1
		for i < len(s) && s[i] >= 0x20 && s[i] <= 0x2f {
			i++
		}
		if i == len(s) || i > 1 {
			return i < len(s)
		}
		kind, size = rune(s[1]), 2
	}
	switch kind {
	case '[':
		return strings.ContainsFunc(s[size:], func(r rune) bool { return r < 0x20 || r >= 0x40 })
	case ']', 'P', 'X', '^', '_':
		return stringEnd(s[size:]) >= 0
	default:
		return true
	}
}
