// Package printable lets text and colour through to a terminal, and nothing
// else. What an agent prints is a stranger's: a terminal would obey sequences
// in it that set its title, write to the clipboard, hide text, or answer.
//
// Text cannot be hidden by colour either: no background passes, and of the
// foregrounds only hues that stand out on every usual background.
package printable

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/ansi/parser"
)

// sequenceMax is the length of the longest sequence that is let through, in
// bytes: no colour is longer.
const sequenceMax = 64

// Writer passes on text, line ends, tabs, colours, and what clears the rest of
// a line. Between two calls of Write the terminal has its default colours, so
// whatever else is printed, and whenever the program ends, nothing takes on those
// of a stranger. It is not safe for concurrent use.
type Writer struct {
	out      io.Writer
	parser   *ansi.Parser
	clean    bytes.Buffer
	sequence []byte // what has come of the sequence so far
	style    style  // of the text that comes next
}

// NewWriter returns a Writer that writes to out.
func NewWriter(out io.Writer) *Writer {
	w := &Writer{out: out, parser: ansi.NewParser()}
	w.parser.SetDataSize(1) // of strings that are dropped nothing is kept
	w.parser.SetHandler(ansi.Handler{Print: w.print, Execute: w.execute, HandleCsi: w.csi})
	return w
}

// Write implements [io.Writer]. It returns the length of p when all that may
// pass of it was written.
func (w *Writer) Write(p []byte) (int, error) {
	w.clean.Reset()
	w.clean.WriteString(w.style.sequence())
	for _, b := range p {
		if b == '\n' && w.parser.State() != parser.GroundState {
			// A string that is never ended must not swallow the lines after it.
			w.parser.Reset()
		}
		if w.parser.State() == parser.GroundState {
			w.sequence = w.sequence[:0]
		}
		if len(w.sequence) <= sequenceMax {
			w.sequence = append(w.sequence, b)
		}
		w.parser.Advance(b)
	}
	if w.style != (style{}) {
		w.clean.WriteString(reset)
	}
	if _, err := w.out.Write(w.clean.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *Writer) print(r rune) {
	if r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
		r = utf8.RuneError
	}
	w.clean.WriteRune(r)
}

func (w *Writer) execute(b byte) {
	switch b {
	case '\n', '\r', '\t':
		w.clean.WriteByte(b)
	}
}

// harmless are the two sequences that pass: SGR, which is colour, and EL, which
// clears in a line.
var harmless = regexp.MustCompile(`^\x1b\[[0-9;:]*[mK]$`)

func (w *Writer) csi(cmd ansi.Cmd, _ ansi.Params) {
	if len(w.sequence) > sequenceMax || !harmless.Match(w.sequence) {
		return
	}
	if cmd.Final() == 'K' {
		w.clean.Write(w.sequence)
		return
	}
	parameters := string(w.sequence[len("\x1b[") : len(w.sequence)-1])
	if kept := w.style.apply(parameters); len(kept) > 0 {
		w.clean.WriteString("\x1b[" + strings.Join(kept, ";") + "m")
	}
}
