package event

import (
	"bytes"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Decoder decodes an agent's output piece by piece. Each run of an agent needs a new one.
type Decoder interface {
	// Decode decodes the next piece, which may end anywhere and be reused afterwards.
	Decode(piece []byte) []Event
	// End is called once after the last piece and returns the remaining events.
	End() []Event
}

// maxLine is the length of the longest line that is decoded, in bytes.
const maxLine = 6 << 20

// Lines returns a decoder that calls decode for each line that is not empty, without
// surrounding white space. The line is reused after decode returns.
func Lines(decode func(line []byte) []Event) Decoder { return &lines{decode: decode} }

type lines struct {
	decode  func(line []byte) []Event
	partial []byte // start of the current line
	skipped bool   // the current line is too long
}

func (l *lines) Decode(piece []byte) []Event {
	var events []Event
	for {
		part, rest, complete := bytes.Cut(piece, []byte("\n"))
		if l.skipped = l.skipped || len(l.partial)+len(part) > maxLine; l.skipped {
			l.partial = nil
		} else if !complete || len(l.partial) > 0 {
			l.partial = append(l.partial, part...)
			part = l.partial
		}
		if !complete {
			return events
		}
		if !l.skipped {
			events = append(events, l.line(part)...)
		}
		l.partial, l.skipped, piece = l.partial[:0], false, rest
	}
}

func (l *lines) line(line []byte) []Event {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return nil
	}
	return l.decode(line)
}

func (l *lines) End() []Event { return l.line(l.partial) }

// PlainText returns a decoder for agents that print plain text.
func PlainText() Decoder { return &plainText{} }

type plainText struct{ stripper termsafe.Stripper }

func (p *plainText) Decode(piece []byte) []Event { return texts(p.stripper.Strip(piece)) }

func (p *plainText) End() []Event { return texts(p.stripper.End()) }

func texts(s string) []Event {
	if s == "" {
		return nil
	}
	return []Event{Text{s}}
}
