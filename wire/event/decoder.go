package event

import (
	"bytes"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
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

type plainText struct{ shown termsafe.Stripper }

func (p *plainText) Decode(piece []byte) []Event { return texts(p.shown.Strip(piece)) }

func (p *plainText) End() []Event { return texts(p.shown.End()) }

func texts(s string) []Event {
	if s == "" {
		return nil
	}
	return []Event{Text{s}}
}
