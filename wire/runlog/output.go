package runlog

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxOutput bounds the size of a transcript, in bytes.
const maxOutput = 16 << 20

// outputFile is the file with the rendered output of run n; 0 is the output
// before the first run.
func outputFile(n int) string { return fmt.Sprintf("%d.log", n) }

// Transcript is a file with a copy of the output of a command. Write errors are
// ignored. It is safe for concurrent use.
type Transcript struct {
	mu   sync.Mutex
	file io.WriteCloser // nil if closed, full or broken
	left int            // bytes
}

// Write implements [io.Writer]. It never fails.
func (t *Transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return len(p), nil
	}
	_, err := t.file.Write(p[:min(len(p), t.left)])
	if len(p) > t.left && err == nil {
		_, err = fmt.Fprintf(t.file, "\n[output truncated after %d MiB]\n", maxOutput>>20)
		err = errors.Join(err, io.ErrShortWrite)
	}
	t.left -= len(p)
	if err != nil {
		t.close()
	}
	return len(p), nil
}

func (t *Transcript) close() {
	if t.file != nil {
		_ = t.file.Close()
		t.file = nil
	}
}

// Close closes the transcript, which can be nil.
func (t *Transcript) Close() {
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.close()
	}
}

// Tee returns a writer that writes to w, and a copy to the transcript, which can be
// nil.
func (t *Transcript) Tee(w io.Writer) io.Writer {
	if t == nil {
		return w
	}
	return tee{w, t}
}

type tee struct {
	out, log io.Writer
}

func (t tee) Write(p []byte) (int, error) {
	n, err := t.out.Write(p)
	_, _ = t.log.Write(p[:n])
	return n, err
}

// Output is the transcript of a loop, with a file for each run.
type Output struct {
	Transcript
	log *Log
}

// Output returns the transcript of the loop, starting with the existing run n, or
// with 0 in a new loop.
func (l *Log) Output(n int) *Output {
	l.output = &Output{log: l}
	l.output.begin(n)
	return l.output
}

// Begin starts the output of run n.
func (l *Log) Begin(n int) {
	if l.output != nil {
		l.output.begin(n)
	}
}

// Note adds text to the transcript only.
func (l *Log) Note(text string) {
	if l.output != nil {
		_, _ = io.WriteString(l.output, text)
	}
}

func (o *Output) begin(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	files, name := o.log.files, outputFile(n)
	o.file, o.left = appender{files, name}, int(max(0, maxOutput-files.Size(name)))
}
