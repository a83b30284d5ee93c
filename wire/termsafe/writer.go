package termsafe

import (
	"bytes"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi/parser"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// sequenceMax is the length of the longest sequence that is let through, in
// bytes: no colour is longer.
const sequenceMax = 64

// Writer passes on text, line ends, tabs, colours, and what clears the rest of
// a line. Between two calls of Write the terminal has its default colours, so
// whatever else is printed, and whenever the program ends, nothing takes on those
// of a stranger. Text cannot be hidden by colour either: no background passes, and of
// the foregrounds only hues that stand out on every usual background. It is not safe for
// concurrent use.
type Writer struct {
	out      io.Writer
	scanner  scanner
	clean    bytes.Buffer
	sequence []byte // what has come of the sequence so far
	style    style  // of the text that comes next
}

// NewWriter returns a Writer that writes to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write implements [io.Writer]. It returns the length of p when all that may
// pass of it was written.
func (w *Writer) Write(p []byte) (int, error) {
	w.clean.Reset()
	w.clean.WriteString(w.style.sequence())
	w.scanner.scan(p, w.do)
	if w.style != (style{}) {
		w.clean.WriteString(reset)
	}
	if _, err := w.out.Write(w.clean.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *Writer) do(action parser.Action, r rune) {
	if r == '\x1b' { // a sequence begins
		w.sequence = w.sequence[:0]
	}
	if len(w.sequence) <= sequenceMax && r < utf8.RuneSelf {
		w.sequence = append(w.sequence, byte(r))
	}
	switch action {
	case parser.PrintAction:
		if unicode.Is(unicode.Bidi_Control, r) {
			r = utf8.RuneError
		}
		w.clean.WriteRune(r)
	case parser.ExecuteAction:
		if r == '\r' || !stripped(r) {
			w.clean.WriteRune(r)
		}
	case parser.DispatchAction:
		w.pass(string(w.sequence))
	}
}

// harmless are the two sequences that pass: SGR, which is colour, and EL, which
// clears in a line.
var harmless = lazyregexp.New(`^\x1b\[[0-9;:]*[mK]$`)

func (w *Writer) pass(sequence string) {
	if !harmless().MatchString(sequence) {
		return
	}
	parameters, final := sequence[len("\x1b["):len(sequence)-1], sequence[len(sequence)-1]
	if final == 'K' {
		w.clean.WriteString(sequence)
	} else if kept := w.style.apply(parameters); len(kept) > 0 {
		w.clean.WriteString("\x1b[" + strings.Join(kept, ";") + "m")
	}
}
