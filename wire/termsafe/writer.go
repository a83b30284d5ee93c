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

// maxSequence is the maximum length of an allowed sequence, in bytes.
const maxSequence = 64

// Writer writes text, newlines, carriage returns, tabs, colors, and sequences that clear
// in a line or below the cursor, which text cannot move up. After each Write the terminal has its default colors, for other output and in
// case the program ends. Colors cannot hide text: backgrounds are removed, and foregrounds
// that are not readable on all usual backgrounds. It is not safe for concurrent use.
type Writer struct {
	out      io.Writer
	scanner  scanner
	clean    bytes.Buffer
	sequence []byte // incomplete
	style    style  // of the following text
}

// NewWriter returns a Writer that writes to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write implements [io.Writer].
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
	if r == '\x1b' { // start of a sequence
		w.sequence = w.sequence[:0]
	}
	if len(w.sequence) <= maxSequence && r < utf8.RuneSelf {
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
		w.writeSequence(string(w.sequence))
	}
}

// harmless matches the allowed sequences: SGR (colors), EL (clear in line), and ED from the
// cursor on.
var harmless = lazyregexp.New(`^\x1b\[([0-9;:]*[mK]|J)$`)

func (w *Writer) writeSequence(sequence string) {
	if !harmless().MatchString(sequence) {
		return
	}
	parameters, final := sequence[len("\x1b["):len(sequence)-1], sequence[len(sequence)-1]
	if final != 'm' {
		w.clean.WriteString(sequence)
	} else if allowed := w.style.apply(parameters); len(allowed) > 0 {
		w.clean.WriteString("\x1b[" + strings.Join(allowed, ";") + "m")
	}
}
