package run

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

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// away is a loop that has left its terminal, or may do so.
type away struct {
	host.Background
	id   string
	dir  string        // of the logs
	lost chan struct{} // closed when the terminal is gone

	once sync.Once // it has begun

	mu     sync.Mutex
	told   bool   // how it ended
	recent []byte // what was written last, while there is a terminal
	gone   bool
	log    *rollingLog      // nil while there is a terminal, and where none can be written
	path   string           // of the log
	held   *host.HeldRecord // nil while nothing runs in the sandbox
	ended  error            // with which the latest attempt of a loop has
}

// depart prepares the host for a loop that may leave its terminal: what is
// written goes to a log from then on.
func (h session) depart(ctx context.Context) (session, func()) {
	a := &away{Background: *h.Background, id: rand.Text(), dir: detachedDir(h.Host), lost: make(chan struct{})}
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
				h.Report("The terminal was lost: the loop continues in the background")
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
	err = errors.Join(err, a.LetGo(crash), a.held.Detach(a.path))
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
const recentMax = AttachBefore

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
func (h session) noteOnce(sb lifecycle.Sandbox, p lifecycle.Process) (*host.HeldRecord, error) {
	if h.away != nil && h.away.held != nil && h.away.held.Lock.Locked() {
		return h.away.held, nil
	}
	n, err := h.NewRecord(sb, p)
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
		a.held.Done(a.ended)
	}
}

// noted hands over the note of what runs in the sandbox.
func (a *away) noted(n *host.HeldRecord) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = n
	if a.gone {
		return n.Detach(a.path)
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
func (h session) watchBegin(sb lifecycle.Sandbox, p *lifecycle.Process) (stop func()) {
	if h.away == nil || h.away.Begun == nil {
		return func() {}
	}
	begun := sync.OnceFunc(func() {
		if err := h.away.letGo(); err != nil {
			h.Report(fmt.Sprintf("Warning: %v", err))
		}
		h.away.once.Do(func() { h.away.Begun(sb.Name) })
	})
	timer := time.AfterFunc(beginPatience, begun)
	p.Stdout = &beginning{to: p.Stdout, begun: begun}
	p.Stderr = &beginning{to: p.Stderr, begun: begun}
	return func() { timer.Stop() }
}

func detachedDir(h host.Host) string { return filepath.Join(h.StateDir, "detached") }

// leaveEnd leaves the end of a loop without a terminal for others to find. The
// note goes after that, so that one of both is always there.
func (h session) leaveEnd(sandbox, top string, code int, err error) {
	if h.away == nil || !h.away.left() || h.away.told {
		return
	}
	h.away.told = true
	if err != nil {
		hint.Print(termsafe.NewWriter(h.Stderr), err)
	}
	n := h.away.held
	if n == nil {
		return // nothing has run
	}
	e := host.End{ID: n.ID, Command: n.Command, Since: n.Since, At: time.Now().UTC(), ExitCode: code, Log: h.away.path, Summary: summaryOf(top, n.ID)}
	if err != nil {
		e.Error = err.Error()
		e.ExitCode = max(code, 1)
	}
	if err := h.SaveEnd(sandbox, e); err != nil {
		h.Report(fmt.Sprintf("Warning: %v", err))
	}
	n.Done(nil)
}

// summaryOf is what the loop of a dispatch says that it came to.
func summaryOf(top, id string) string {
	log, err := runlog.Find(top, func(l runlog.Loop) bool { return l.Dispatch == id })
	if err != nil {
		return ""
	}
	log.Close()
	return termsafe.Line(log.Loop.Summary)
}
