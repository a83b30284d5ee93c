package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

const (
	// remoteGrace is how long an engine on another machine may be unreachable.
	remoteGrace = time.Hour
	// answerEvery is how often such an engine is asked whether the connection works, and
	// answerTimeout how long it may take.
	answerEvery   = 10 * time.Second
	answerTimeout = 20 * time.Second
)

// errNoAnswer is the cause of a connection that is given up: a laptop that was asleep, or a
// network that drops packets, does not close it.
var errNoAnswer = fmt.Errorf("no answer from the engine for %s: %w", answerTimeout, io.ErrUnexpectedEOF)

// remote reports whether the driver's engine is on another machine.
func remote(driver lifecycle.Driver) bool {
	d, ok := driver.(*container.Driver)
	return ok && !engine.Local(d.Host)
}

// watchConnection returns a context that is canceled when an engine on another machine does
// not answer any more.
func watchConnection(ctx context.Context, driver lifecycle.Driver, sandbox string) (_ context.Context, stop func()) {
	if !remote(driver) {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(answerEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			asked, done := context.WithTimeout(ctx, answerTimeout)
			_, err := driver.Lookup(asked, sandbox)
			if err != nil && errors.Is(asked.Err(), context.DeadlineExceeded) {
				cancel(errNoAnswer)
			}
			done()
		}
	}()
	return ctx, func() { cancel(nil) }
}

// follower follows a loop whose connection was lost, from its log.
type follower struct {
	session
	driver lifecycle.Driver
	sb     lifecycle.Sandbox
	id     string
	out    io.Writer
	log    *runlog.Reader // nil before it is found
	at     runlog.Cursor
}

// rejoin waits for the engine, and follows a loop that has survived the lost connection. The
// error is that of the connection if the loop has not, or its end is unknown.
func (h session) rejoin(ctx context.Context, rec *resumer, driver lifecycle.Driver, sb lifecycle.Sandbox, p lifecycle.Process, lost error) (int, error) {
	f := &follower{session: h, driver: driver, sb: sb, id: p.ID, out: p.Stdout}
	defer f.close()
	if f.find() {
		f.at, _ = f.log.Copy(io.Discard, runlog.Rendered, f.at) // it was printed
	}
	grace := engineGrace
	if remote(driver) {
		grace = remoteGrace
	}
	away, end := false, time.Now().Add(grace)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		asked, cancel := context.WithTimeout(ctx, answerTimeout)
		running, err := Runs(asked, driver, sb, p.ID)
		cancel()
		noAnswer := err != nil && (connectionLost(err) || errors.Is(err, context.DeadlineExceeded))
		switch {
		case noAnswer && time.Now().After(end), err != nil && !noAnswer:
			return 0, lost
		case noAnswer && !away:
			away, rec.absent = true, true
			h.Report("Warning: the engine does not answer: waiting for it")
		case err == nil && !running:
			code, err := endOf(ctx, sb, p.ID)
			f.print()
			if err != nil {
				err = lost
			}
			return code, err
		case err == nil:
			if away {
				away = false
				h.Report("Connected again: following the loop")
			}
			end = time.Now().Add(grace)
			f.print()
		}
		select {
		case sig := <-p.Signals:
			if away {
				return 0, hint.Wrap(fmt.Errorf("lost the connection to the engine: %q continues in the sandbox %s", "ralph "+f.command(), sb.Name), "attach to it with %q", "docker ralph attach")
			}
			f.signal(ctx, sig)
		case <-tick.C:
		}
	}
}

func (f *follower) command() string {
	if f.log != nil {
		return f.log.Loop.Mode
	}
	return host.BuildCommand
}

func (f *follower) find() bool {
	if f.log != nil {
		return true
	}
	log, err := runlog.Find(f.sb.Root, func(l runlog.Loop) bool { return l.Dispatch == f.id })
	if err != nil {
		return false
	}
	f.log = log
	return true
}

func (f *follower) print() {
	if f.find() {
		f.at, _ = f.log.Copy(f.out, runlog.Rendered, f.at) // what is missing follows
	}
}

func (f *follower) close() {
	if f.log != nil {
		f.log.Close()
	}
}

// signal forwards a signal to the loop.
func (f *follower) signal(ctx context.Context, sig os.Signal) {
	name := "INT"
	if sig == syscall.SIGTERM {
		name = "TERM"
	}
	if err := lifecycle.RunService(ctx, f.driver, f.sb, nil, io.Discard, wire.Program, "_signal", name, f.id); err != nil {
		f.Report(fmt.Sprintf("Warning: forwarding the signal to the sandbox: %v", err))
	}
}
