package dispatch

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Background is how a loop goes on without a terminal.
type Background struct {
	// Lost is closed when the terminal is lost.
	Lost <-chan struct{}
	// LetGo lets go of the terminal and of all open files that lead to it. What
	// the program says when it crashes goes to the file.
	LetGo func(crash *os.File) error
	// Begun is called in a process that has been started to run a loop in the
	// background, once the loop has begun and the terminal was let go; nil in
	// others.
	Begun func(sandbox string)
}

// away is a loop that has left its terminal, or may do so.
type away struct {
	Background
	id   string
	dir  string        // of the logs
	lost chan struct{} // closed when the terminal is gone

	once sync.Once // it has begun

	mu     sync.Mutex
	told   bool   // how it ended
	recent []byte // what was written last, while there is a terminal
	gone   bool
	log    *rollingLog // nil while there is a terminal, and where none can be written
	path   string      // of the log
	held   *heldNote   // nil while nothing runs in the sandbox
	ended  error       // with which the latest attempt of a loop has
}

// depart prepares the host for a loop that may leave its terminal: what is
// written goes to a log from then on.
func (h Host) depart(ctx context.Context) (Host, func()) {
	a := &away{Background: *h.Background, id: rand.Text(), dir: h.detachedDir(), lost: make(chan struct{})}
	h.Stdout, h.Stderr = outlet{a, h.Stdout}, outlet{a, h.Stderr}
	if ask := h.Confirm; ask != nil {
		h.Confirm = func(ctx context.Context, question string) (bool, error) {
			if a.left() {
				return false, nil // nobody is there any more
			}
			return ask(ctx, question)
		}
	}
	over := make(chan struct{})
	go func() {
		select {
		case <-over:
		case <-ctx.Done():
		case <-a.Lost:
			if err := a.letGo(); err == nil {
				h.report("The terminal was lost, and the loop goes on without it")
			}
		}
	}()
	h.away = a
	return h, func() { close(over) }
}

// letGo leaves the terminal. Without a log the loop goes on all the same.
func (a *away) letGo() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone {
		return nil
	}
	log, err := newRollingLog(a.dir, a.id, detachedLogMax)
	var crash *os.File
	if err == nil {
		a.log, a.path, crash = log, log.path, log.file
		_, _ = a.log.Write(a.recent) // for whoever takes it back
		pruneDetached(a.dir, a.path)
	}
	a.gone, a.recent = true, nil
	err = errors.Join(err, a.LetGo(crash), a.held.detach(a.path))
	close(a.lost)
	return err
}

func (a *away) left() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gone
}

// recentMax is how much of what was written on a terminal is in the log, too, in
// bytes.
const recentMax = attachBefore

func (a *away) remember(p []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.recent = append(a.recent, p...)
	if over := len(a.recent) - recentMax; over > 0 {
		a.recent = append([]byte(nil), a.recent[over:]...)
	}
}

// noteOnce writes the note of a process, unless there is one from an attempt
// before, which is kept until a loop has ended for good.
func (h Host) noteOnce(sb lifecycle.Sandbox, p lifecycle.Process) (*heldNote, error) {
	if h.away != nil && h.away.held != nil && h.away.held.lock.Locked() {
		return h.away.held, nil
	}
	n, err := h.note(sb, p)
	if err == nil && h.away != nil {
		err = h.away.noted(n)
	}
	return n, err
}

// settle is called when a loop is not started again: its note goes, unless that is
// done when all is.
func (a *away) settle() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.gone && a.held != nil {
		a.held.done(a.ended)
	}
}

// noted hands over the note of what runs in the sandbox.
func (a *away) noted(n *heldNote) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = n
	if a.gone {
		return n.detach(a.path)
	}
	return nil
}

// lostPatience is how much later than others we may hear of a lost terminal.
const lostPatience = time.Second

// isLost says whether the terminal is lost, or just about to be.
func (a *away) isLost() bool {
	select {
	case <-a.lost:
		return true
	case <-time.After(lostPatience):
		return false
	}
}

// outlet writes to the terminal, or to the log of what has left it.
type outlet struct {
	away *away
	to   io.Writer
}

// Write implements [io.Writer]. A terminal that cannot be written to is lost.
func (o outlet) Write(p []byte) (int, error) {
	if !o.away.left() {
		n, err := o.to.Write(p)
		o.away.remember(p[:n])
		if err == nil || !o.away.isLost() {
			return n, err
		}
		p = p[n:]
		n, err = o.write(p)
		return n, err
	}
	return o.write(p)
}

func (o outlet) write(p []byte) (int, error) {
	o.away.mu.Lock()
	defer o.away.mu.Unlock()
	if o.away.log != nil {
		_, _ = o.away.log.Write(p) // a full disk costs the log, not the work
	}
	return len(p), nil
}

// beginning is output in which the beginning of a loop is looked for: the line
// that ralph prints when nothing is in its way any more.
type beginning struct {
	to    io.Writer
	begun func()
	last  []byte
}

// rule begins the first line that ralph prints of a loop.
const rule = "━━━━━━━━━━━━━━━━━━━━"

// Write implements [io.Writer].
func (b *beginning) Write(p []byte) (int, error) {
	n, err := b.to.Write(p)
	if b.begun != nil {
		b.last = append(b.last, p...)
		if bytes.Contains(b.last, []byte(rule)) {
			b.begun()
			b.begun, b.last = nil, nil
		} else if over := len(b.last) - len(rule); over > 0 {
			b.last = append([]byte(nil), b.last[over:]...)
		}
	}
	return n, err
}

// beginPatience is how long a loop that says nothing may run until it counts as
// one that has begun.
const beginPatience = 20 * time.Second

// watchBegin lets a process in the background leave its terminal when its loop
// has begun. It returns a function that ends the wait.
func (h Host) watchBegin(sb lifecycle.Sandbox, p *lifecycle.Process) (stop func()) {
	if h.away == nil || h.away.Begun == nil {
		return func() {}
	}
	begun := sync.OnceFunc(func() {
		if err := h.away.letGo(); err != nil {
			h.report(fmt.Sprintf("Warning: %v", err))
		}
		h.away.once.Do(func() { h.away.Begun(sb.Name) })
	})
	timer := time.AfterFunc(beginPatience, begun)
	p.Stdout = &beginning{to: p.Stdout, begun: begun}
	p.Stderr = &beginning{to: p.Stderr, begun: begun}
	return func() { timer.Stop() }
}

func (h Host) detachedDir() string { return filepath.Join(h.StateDir, "detached") }
