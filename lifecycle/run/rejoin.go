package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// follower follows a loop whose connection was lost, from its log.
type follower struct {
	session
	driver  lifecycle.Driver
	sb      lifecycle.Sandbox
	id      string
	command string
	out     io.Writer
	grace   time.Duration  // how long the engine may be unreachable
	log     *runlog.Reader // nil before it is found
	at      runlog.Cursor
}

// answer is what the engine says about a loop.
type answer struct {
	running bool
	code    int
	err     error
}

// rejoin waits for the engine, and follows a loop that has survived the lost connection. The
// error is that of the connection if the loop has not, or its end is unknown.
func (f *follower) rejoin(ctx context.Context, rec *resumer, signals <-chan os.Signal, lost error) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer f.close()
	if f.find() {
		f.at, _ = f.log.Copy(io.Discard, runlog.Rendered, f.at) // it was printed
	}
	answers := make(chan answer, 1)
	ask := func() { go func() { answers <- f.ask(ctx) }() }
	ask()
	connected := false
	var end time.Time // of the wait; zero while the engine answers
	for {
		select {
		case sig := <-signals:
			if !connected {
				return 0, disconnected(f.command, f.sb.Name)
			}
			f.signal(ctx, sig)
			continue
		case a := <-answers:
			switch {
			case noAnswer(a.err) && !end.IsZero() && time.Now().After(end):
				return 0, disconnected(f.command, f.sb.Name)
			case noAnswer(a.err) && end.IsZero():
				connected, rec.absent, end = false, true, time.Now().Add(f.grace)
				f.Report("Warning: the engine does not answer: waiting for it")
			case noAnswer(a.err):
			case a.err != nil:
				return 0, lost
			case !a.running:
				f.print()
				return a.code, nil
			default:
				if !end.IsZero() {
					f.Report("Reconnected: following the loop")
				}
				connected, end = true, time.Time{}
				f.print()
			}
		}
		time.AfterFunc(pollEvery, ask)
	}
}

// ask asks the engine for the state of the loop. It is [ErrUnknownEnd] for one that was killed.
func (f *follower) ask(ctx context.Context) (a answer) {
	asked, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if a.running, a.err = Runs(asked, f.driver, f.sb, f.id); a.err == nil && !a.running {
		a.code, a.err = CodeOf(f.LogsOf(f.sb), f.id)
	}
	return a
}

func (f *follower) find() bool {
	if f.log != nil {
		return true
	}
	log, err := runlog.Find(f.LogsOf(f.sb), func(l runlog.Loop) bool { return l.Dispatch == f.id })
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
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	name := "INT"
	if sig == syscall.SIGTERM {
		name = "TERM"
	}
	if err := lifecycle.RunService(ctx, f.driver, f.sb, nil, io.Discard, wire.Program, "_signal", name, f.id); err != nil {
		f.Report(fmt.Sprintf("Warning: forwarding the signal to the sandbox: %v", err))
	}
}
