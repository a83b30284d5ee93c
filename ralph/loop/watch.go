package loop

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// renewEvery is how often the leases of a working agent are kept.
const renewEvery = backlog.DefaultLease / 3

// watch is the company of one run: it hears what the agent prints and ends it
// when it has to end.
type watch struct {
	loop   *loop
	child  *agent.Child
	limits *limitWatch
	heard  chan heard
	now    runlog.Now // as it is in the log

	out      outcome
	end      end           // why the run ends
	killed   chan struct{} // nil until it is killed; closed when that is done
	quiet    *time.Timer
	quietFor time.Duration
}

// wait stays until the agent has ended.
func (w *watch) wait(ctx context.Context) {
	l := w.loop
	timeout := timer(l.Timeout)
	defer timeout.Stop()
	defer l.guard()()
	over := timer(0)
	if l.Bounds.MaxDuration > 0 {
		over = timer(max(time.Millisecond, l.timeLeft()))
	}
	defer over.Stop()
	w.quiet = timer(l.Bounds.Idle)
	w.quietFor = l.Bounds.Idle
	defer w.quiet.Stop()
	renew := time.NewTicker(renewEvery)
	defer renew.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	cancelled, broken := ctx.Done(), l.out.broken()
	for {
		select {
		case <-w.child.Done():
			return
		case <-cancelled:
			cancelled = nil
			w.kill(endInterrupted)
		case <-timeout.C:
			w.kill(endTimedOut)
		case <-over.C:
			w.kill(endOverTime)
		case <-w.quiet.C:
			w.silent()
		case <-broken:
			broken = nil
			w.kill(endItself)
		case <-renew.C:
			l.renew(ctx)
		case <-look.C:
			if w.limits.stuck() {
				w.kill(endProcesses)
			}
			w.checkClaims(ctx)
			w.noteTasks(ctx)
		case said, open := <-w.heard:
			if !open {
				w.heard = nil
				continue
			}
			w.hear(said)
		case sig := <-l.Signals:
			w.signal(sig)
		case <-l.Finish:
			l.finishing = true
			w.say("\nAsked to stop: the loop ends after this run.\n")
		}
	}
}

// finish hears what is left after the agent's end, and says how it ended. That what
// is left cannot be shown does not hold up a signal.
func (w *watch) finish() outcome {
	if w.killed != nil {
		defer func() { <-w.killed }() // it would hit the next run
	}
	switch w.end {
	case endItself, endDone, endProcesses:
	default: // the loop ends, too
		w.loop.hurryOutput()
	}
	for w.heard != nil {
		select {
		case said, open := <-w.heard:
			if !open {
				w.heard = nil
			}
			w.note(said.events)
		case <-w.loop.Signals:
			w.loop.giveUpOutput()
		}
	}
	w.out.end = w.end
	w.out.forced = w.end == endInterrupted && w.killed != nil
	return w.out
}

// kill ends the run, for the first reason that there is.
func (w *watch) kill(why end) {
	if w.end == endItself {
		w.end = why
	}
	if w.killed != nil {
		return
	}
	done := make(chan struct{})
	w.killed = done
	go func() { // meanwhile its output is read on
		defer close(done)
		w.child.Kill()
	}()
}

// silent ends a run that has said nothing for too long. After its last word an
// agent that stays has done its work.
func (w *watch) silent() {
	if w.out.result != nil {
		w.kill(endDone)
		return
	}
	w.kill(endIdle)
}

func (w *watch) hear(said heard) {
	w.note(said.events)
	if w.quietFor > 0 {
		w.quiet.Reset(w.quietFor)
	} else {
		w.quiet.Stop()
	}
	if w.out.result != nil {
		return // what it has spent counts for the next run
	}
	switch l := w.loop; {
	case w.out.noKey != "":
		w.kill(endKeyRefused) // it would go on asking for minutes
	case l.overCost(w.out.usage.CostUSD):
		w.kill(endOverCost)
	case l.overTokens(w.out.usage.Tokens):
		w.kill(endOverTokens)
	}
}

func (w *watch) note(events []event.Event) {
	for _, e := range events {
		switch e := e.(type) {
		case event.Usage:
			if e.Tokens != nil {
				w.out.usage.Tokens = e.Tokens
			}
			if e.CostUSD != nil {
				w.out.usage.CostUSD = e.CostUSD
			}
		case event.RateLimit:
			w.out.limit = &e
		case event.Complaint:
			w.out.complaint = e.Text
		case event.KeyRefused:
			w.out.noKey = cmp.Or(strings.TrimSpace(e.Text), "no key")
		case event.Resumed: // its last word was not the last
			w.out.result = nil
			w.quietFor = w.loop.Bounds.Idle
		case event.Result:
			w.out.result = &e
			if grace := w.loop.Bounds.Grace; grace > 0 {
				w.quietFor = grace
			}
		}
	}
}

// signal passes a wish of the user on: the first SIGINT asks the agent to
// finish, everything else ends it.
func (w *watch) signal(sig os.Signal) {
	again := w.end == endInterrupted
	w.end = endInterrupted
	if sig != os.Interrupt || again || w.killed != nil {
		w.kill(endInterrupted)
		return
	}
	w.say("\nWaiting for %s to finish cleanup... Press Ctrl+C again to force quit.\n", w.loop.Agent.Name())
	if w.loop.Session.Sandboxed {
		w.say("To let a run finish its task instead, use \"docker ralph stop\".\n")
	}
	w.child.Interrupt()
}

// say prints, but watches on if that takes long.
func (w *watch) say(format string, args ...any) {
	select {
	case <-w.loop.out.begin(fmt.Sprintf(format, args...)):
	case <-time.After(writeGrace):
	}
}

// timer returns a timer that fires after d, and never when d is 0.
func timer(d time.Duration) *time.Timer {
	if d > 0 {
		return time.NewTimer(d)
	}
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}
