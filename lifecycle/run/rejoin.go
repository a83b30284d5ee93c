package run

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// follower follows a loop without a connection to its process, from its log.
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

// rejoin follows the loop until it has ended, and waits for the engine. The error is [ErrUnknownEnd] for a loop that was
// killed, and [lifecycle.ErrDisconnected] if the engine does not answer for too long, or at a signal meanwhile.
func (f *follower) rejoin(ctx context.Context, rec *resumer, signals <-chan os.Signal) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer f.close()
	if f.find() {
		f.at, _ = f.log.Copy(io.Discard, runlog.Rendered, f.at) // it was printed
	}
	type answer struct {
		running bool
		err     error
	}
	answers := make(chan answer, 1)
	ask := func() {
		asked, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		running, err := Runs(asked, f.driver, f.sb, f.id)
		answers <- answer{running, err}
	}
	go ask()
	connected, away := false, false
	end := time.Now().Add(f.grace) // of the wait for an answer
	for {
		select {
		case sig := <-signals:
			if !connected {
				return 0, disconnected(f.command, f.sb.Name)
			}
			go func() { _ = f.deliver(ctx, f.driver, f.sb, sig, f.id) }() // a failure is reported
			continue
		case a := <-answers:
			f.print()
			switch {
			case a.err == nil && !a.running:
				return CodeOf(f.LogsOf(f.sb), f.id)
			case a.err == nil:
				if away {
					f.Report("Reconnected: following the loop")
				}
				connected, away, end = true, false, time.Now().Add(f.grace)
			case time.Now().After(end):
				return 0, disconnected(f.command, f.sb.Name)
			case !away && noAnswer(a.err):
				connected, away, rec.away = false, true, true
				f.Report("Warning: the engine does not answer: waiting for it")
			}
		}
		time.AfterFunc(pollEvery, ask)
	}
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
