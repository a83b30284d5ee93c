package run

import (
	"bytes"
	"io"
	"strings"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// startFailures begin what an engine, or Go, prints in place of a command's output if
// there is no room for its process.
var startFailures = []string{"OCI runtime exec failed: ", "runtime: failed to create new OS thread"}

// startFailureMax bounds such a text, in bytes.
const startFailureMax = 64 << 10

// startWatch holds back output that may say that a command was not started.
type startWatch struct {
	to      io.Writer
	held    []byte
	passing bool // it is the command's own
}

// watchStart watches both outputs of a process.
func watchStart(p *lifecycle.Process) (stdout, stderr *startWatch) {
	stdout, stderr = &startWatch{to: p.Stdout}, &startWatch{to: p.Stderr}
	p.Stdout, p.Stderr = stdout, stderr
	return stdout, stderr
}

// Write implements [io.Writer].
func (w *startWatch) Write(p []byte) (int, error) {
	if w.passing {
		return w.to.Write(p)
	}
	w.held = append(w.held, p...)
	for _, failure := range startFailures {
		if len(w.held) <= startFailureMax && (strings.HasPrefix(failure, string(w.held)) || bytes.HasPrefix(w.held, []byte(failure))) {
			return len(p), nil
		}
	}
	return len(p), w.pass()
}

// failed says that the output began like that of a command which was not started.
func (w *startWatch) failed() bool {
	for _, failure := range startFailures {
		if bytes.HasPrefix(w.held, []byte(failure)) {
			return true
		}
	}
	return false
}

// pass passes on what was held back, and all that comes.
func (w *startWatch) pass() error {
	w.passing = true
	held := w.held
	w.held = nil
	if len(held) == 0 {
		return nil
	}
	_, err := w.to.Write(held)
	return err
}
