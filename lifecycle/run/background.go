package run

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// background runs a loop that may lose its terminal.
type background struct {
	host.Background
	record *host.HeldRecord // nil before the loop runs
	id     string           // of the dispatch
	dir    string           // of the logs
	lost   chan struct{}    // closed when the loop is detached

	ready sync.Once

	mu       sync.Mutex
	detached bool
	saved    bool        // how it ended is saved
	recent   []byte      // the latest output, while there is a terminal
	log      *rollingLog // nil while there is a terminal, or if it cannot be written
	path     string      // of the log
}

// inBackground detaches the session when its terminal is lost: output goes to a log then.
func (h session) inBackground(ctx context.Context) (session, func()) {
	b := &background{Background: *h.Background, id: h.id, dir: detachedDir(h.Host), lost: make(chan struct{})}
	h.Stdout, h.Stderr = &switchOutput{background: b, to: h.Stdout}, &switchOutput{background: b, to: h.Stderr}
	if ask := h.Confirm; ask != nil {
		h.Confirm = func(ctx context.Context, question string) (bool, error) {
			if b.isDetached() {
				return false, nil
			}
			return ask(ctx, question)
		}
	}
	done := make(chan struct{})
	go func() {
		select {
		case <-done:
		case <-ctx.Done():
		case <-b.Lost:
			if err := b.detach(); err == nil {
				h.Report("The terminal was lost: the loop continues in the background")
			}
		}
	}()
	h.background = b
	return h, func() { close(done) }
}

// detach releases the terminal, even if the log cannot be created.
func (b *background) detach() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.detached {
		return nil
	}
	log, err := newRollingLog(b.dir, b.id, detachedLogMax)
	var crash *os.File
	if err == nil {
		b.log, b.path, crash = log, log.path, log.file
		_, _ = b.log.Write(b.recent)                                     // for attach
		pruneLogs(b.dir, detachedLogsMax, time.Now().Add(-24*time.Hour)) // later ones may still be written
	}
	b.detached, b.recent = true, nil
	err = errors.Join(err, b.ReleaseTTY(crash), b.record.Detach(b.path))
	close(b.lost)
	return err
}

func (b *background) isDetached() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.detached
}

// recorded sets the run record, which has the path of the log.
func (b *background) recorded(r *host.HeldRecord) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.record = r
	if b.detached {
		return r.Detach(b.path)
	}
	return nil
}

// recentMax is how much output from before the detach is in the log, in bytes.
const recentMax = AttachBefore

func (b *background) remember(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recent = append(b.recent, p...)
	if over := len(b.recent) - recentMax; over > 0 {
		b.recent = append([]byte(nil), b.recent[over:]...)
	}
}

// lostTimeout is the maximum time between a failed write and the signal that the terminal is
// lost.
const lostTimeout = time.Second

// isLost reports whether the terminal is lost, now or within lostTimeout.
func (b *background) isLost() bool {
	select {
	case <-b.lost:
		return true
	case <-time.After(lostTimeout):
		return false
	}
}

// switchOutput writes to the terminal or, after a detach, to the log.
type switchOutput struct {
	background *background
	to         io.Writer
	mu         sync.Mutex
	lines      lineFilter // for the log
}

// Write implements [io.Writer].
func (o *switchOutput) Write(p []byte) (int, error) {
	if !o.background.isDetached() {
		n, err := o.to.Write(p)
		o.background.remember(o.filter(p[:n]))
		if err == nil || !o.background.isLost() {
			return n, err
		}
		p = p[n:]
	}
	o.background.write(o.filter(p))
	return len(p), nil
}

func (o *switchOutput) filter(p []byte) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines.filter(p)
}

func (b *background) write(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.log != nil {
		_, _ = b.log.Write(p) // the loop continues on a full disk
	}
}

// readyWriter calls ready when ralph prints the first line of a loop.
type readyWriter struct {
	to    io.Writer
	ready func()
	last  []byte
}

// rule is the start of that line.
const rule = "━━━━━━━━━━━━━━━━━━━━"

// Write implements [io.Writer].
func (w *readyWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if w.ready != nil {
		w.last = append(w.last, p...)
		if bytes.Contains(w.last, []byte(rule)) {
			w.ready()
			w.ready, w.last = nil, nil
		} else if over := len(w.last) - len(rule); over > 0 {
			w.last = append([]byte(nil), w.last[over:]...)
		}
	}
	return n, err
}

// readyTimeout is when a loop without output counts as started.
const readyTimeout = 20 * time.Second

// detachWhenReady detaches a loop that was started with --detach when it runs.
func (h session) detachWhenReady(sb lifecycle.Sandbox, p *lifecycle.Process) (stop func()) {
	b := h.background
	if b == nil || b.Ready == nil {
		return func() {}
	}
	ready := sync.OnceFunc(func() {
		if err := b.detach(); err != nil {
			h.Warn(err)
		}
		b.ready.Do(func() { b.Ready(sb.Name) })
	})
	timer := time.AfterFunc(readyTimeout, ready)
	p.Stdout = &readyWriter{to: p.Stdout, ready: ready}
	p.Stderr = &readyWriter{to: p.Stderr, ready: ready}
	return func() { timer.Stop() }
}

func detachedDir(h host.Host) string { return filepath.Join(h.StateDir, "detached") }

// saveEnd saves how a detached loop has ended. Its run record is removed afterwards, so that
// other commands always find one of both.
func (h session) saveEnd(sandbox string, code int, err error) {
	b := h.background
	if !b.isDetached() || b.saved {
		return
	}
	b.saved = true
	if err != nil {
		hint.Print(termsafe.NewWriter(h.Stderr), err)
	}
	r := b.record
	if r == nil || errors.Is(err, lifecycle.ErrDisconnected) {
		return // it has not run, or not ended
	}
	e := host.End{ID: r.ID, Command: r.Command, Since: r.Since, At: time.Now().UTC(), ExitCode: code, Log: b.path, Summary: summaryOf(h.LogsDir(sandbox), r.ID)}
	if err != nil {
		e.Error = err.Error()
		e.ExitCode = max(code, 1)
	}
	if err := h.SaveEnd(sandbox, e); err != nil {
		h.Warn(err)
	}
}

// summaryOf returns the summary in the log of a loop.
func summaryOf(logs, id string) string {
	log, err := runlog.Find(logs, func(l runlog.Loop) bool { return l.Dispatch == id })
	if err != nil {
		return ""
	}
	log.Close()
	return termsafe.Line(log.Loop.Summary)
}
