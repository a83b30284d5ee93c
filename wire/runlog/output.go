package runlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// maxOutput bounds what is kept of that which people saw of one run, in bytes.
const maxOutput = 16 << 20

// outputFile is the file of what people saw of run n; 0 is what came before the
// first.
func outputFile(n int) string { return fmt.Sprintf("%d.log", n) }

// Output is what people see of a loop, kept run by run. It is safe for
// concurrent use. Nobody is told when it cannot be written: it is a copy.
type Output struct {
	log *Log

	mu     sync.Mutex
	n      int
	copied copied
}

// Output is where that goes which people see of the loop. What comes first
// belongs to run n, which has been made already: to 0 in a new loop.
func (l *Log) Output(n int) *Output {
	l.output = &Output{log: l}
	l.output.begin(n)
	return l.output
}

// Begin says that what comes from now on belongs to run n.
func (l *Log) Begin(n int) {
	if l.output != nil {
		l.output.begin(n)
	}
}

// Note adds text that is only in the log.
func (l *Log) Note(text string) {
	if l.output != nil {
		_, _ = io.WriteString(l.output, text)
	}
}

func (o *Output) begin(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n = n
	o.open()
	_ = o.log.holdFile(o.log.name(outputFile(n))) // then it can be lost
}

// open opens the file of the run, in place of the one that is open.
func (o *Output) open() {
	o.copied.close()
	file, err := o.log.root.OpenFile(o.log.name(outputFile(o.n)), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return
	}
	o.copied = copied{file: file, left: int(max(0, maxOutput-info.Size()))}
}

// Write implements [io.Writer]. It never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.copied.write(p)
	return len(p), nil
}

// copied is a file with a copy of what somebody saw, up to a limit. Nobody is told
// when it cannot be written.
type copied struct {
	file *os.File // nil if there is none, or no more is written
	left int      // bytes
}

func (c *copied) write(p []byte) {
	if c.file == nil {
		return
	}
	_, err := c.file.Write(p[:min(len(p), c.left)])
	if len(p) > c.left && err == nil {
		_, err = fmt.Fprintf(c.file, "\n[no more than %d MiB of one run are kept]\n", maxOutput>>20)
		err = errors.Join(err, io.ErrShortWrite)
	}
	c.left -= len(p)
	if err != nil {
		c.close()
	}
}

func (c *copied) close() {
	if c.file != nil {
		_ = c.file.Close()
		c.file = nil
	}
}

// tee writes to people, and what they got to the log.
type tee struct {
	people, log io.Writer
}

func (t tee) Write(p []byte) (int, error) {
	n, err := t.people.Write(p)
	_, _ = t.log.Write(p[:n])
	return n, err
}

// Tee returns a writer that writes to w, and keeps what was written.
func (o *Output) Tee(w io.Writer) io.Writer { return tee{w, o} }
