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

// Limits of a line, in bytes. Longer strings are truncated, to keep the figures beside
// them; a line that is longer nevertheless is skipped.
const (
	maxString = 1 << 20
	maxLine   = 6 << 20
)

// Lines returns a decoder that calls decode for each line that is not empty, without
// surrounding white space and with truncated JSON strings. The line is reused after
// decode returns.
func Lines(decode func(line []byte) []Event) Decoder { return &lines{decode: decode} }

type lines struct {
	decode    func(line []byte) []Event
	partial   []byte // start of the current line
	truncator truncator
	skipped   bool // the current line is too long
}

func (l *lines) Decode(piece []byte) []Event {
	var events []Event
	for {
		part, rest, complete := bytes.Cut(piece, []byte("\n"))
		if complete && len(l.partial) == 0 && !l.skipped && len(part) <= maxString {
			events = append(events, l.line(part)...)
			piece = rest
			continue
		}
		if !l.skipped {
			l.partial = l.truncator.append(l.partial, part)
		}
		if len(l.partial) > maxLine {
			l.partial, l.skipped = nil, true
		}
		if !complete {
			return events
		}
		events = append(events, l.line(l.partial)...)
		l.partial, l.truncator, l.skipped, piece = l.partial[:0], truncator{}, false, rest
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

// IsPlainText reports whether a decoder is that of [PlainText].
func IsPlainText(d Decoder) bool {
	_, is := d.(*plainText)
	return is
}

type plainText struct{ stripper termsafe.Stripper }

func (p *plainText) Decode(piece []byte) []Event { return texts(p.stripper.Strip(piece)) }

func (p *plainText) End() []Event { return texts(p.stripper.End()) }

func texts(s string) []Event {
	if s == "" {
		return nil
	}
	return []Event{Text{s}}
}
