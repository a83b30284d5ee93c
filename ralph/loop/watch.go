package loop

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/event"
)

// renewInterval is how often the leases of a running agent are renewed.
const renewInterval = backlog.DefaultLease / 3

// watch supervises one run: it processes the agent's output and stops the agent.
type watch struct {
	loop   *loop
	child  *agent.Child
	limits *limitWatch
	chunks chan chunk

	out      outcome
	end      end           // why the run ends
	killed   chan struct{} // nil until it is killed; closed after that
	quiet    *time.Timer
	quietFor time.Duration
}

// wait waits for the agent's exit.
func (w *watch) wait(ctx context.Context) {
	l := w.loop
	timeout := timer(l.Timeout)
	defer timeout.Stop()
	defer l.armWatchdog(l.Timeout)()
	duration := timer(0)
	if l.Bounds.MaxDuration > 0 {
		duration = timer(max(time.Millisecond, l.timeLeft()))
	}
	defer duration.Stop()
	w.quiet = timer(l.Bounds.Idle)
	w.quietFor = l.Bounds.Idle
	defer w.quiet.Stop()
	claimed, stopClaims := l.followClaims(ctx)
	defer stopClaims()
	poll := time.NewTicker(l.timing.poll)
	defer poll.Stop()
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
		case <-duration.C:
			w.kill(endOverTime)
		case <-w.quiet.C:
			w.idle()
		case <-broken:
			broken = nil
			w.kill(endExited)
		case c := <-claimed:
			w.updateClaims(c)
		case <-poll.C:
			if w.limits.stuck() {
				w.kill(endProcesses)
			}
			w.meter(ctx)
			l.logBounds(w.out.largest())
			l.saveNow(false)
		case c, open := <-w.chunks:
			if !open {
				w.chunks = nil
				continue
			}
			w.handle(c)
		case sig := <-l.Signals:
			w.signal(sig)
		case <-l.Finish:
			l.finishing = true
			w.printf("\nStop requested: the loop ends after this run.\n")
		}
	}
}

// finish processes the remaining output and returns the outcome. A blocked output does
// not delay the handling of a signal.
func (w *watch) finish() outcome {
	if w.killed != nil {
		defer func() { <-w.killed }() // or else it would kill the next run
	}
	var blocked <-chan time.Time
	switch w.end {
	case endExited, endDone, endProcesses:
	case endTimedOut, endIdle: // neither does it wait for a blocked output
		blocked = time.After(w.loop.timing.drain + writeGrace)
	default: // the loop ends too
		w.loop.abandonOutput()
	}
	for w.chunks != nil {
		select {
		case c, open := <-w.chunks:
			if !open {
				w.chunks = nil
			}
			w.apply(c.events)
		case <-w.loop.Signals:
			w.loop.interruptOutput()
		case <-blocked:
			w.loop.abandonOutput()
		}
	}
	w.out.end = w.end
	w.out.forced = w.end == endInterrupted && w.killed != nil
	return w.out
}

// kill kills the agent. The first reason counts.
func (w *watch) kill(why end) {
	if w.end == endExited {
		w.end = why
	}
	if w.killed != nil {
		return
	}
	done := make(chan struct{})
	w.killed = done
	go func() { // its output must still be read
		defer close(done)
		w.child.Kill()
	}()
}

// idle kills a silent agent. One that has reported its result is done.
func (w *watch) idle() {
	if w.out.result != nil {
		w.kill(endDone)
		return
	}
	w.kill(endIdle)
}

func (w *watch) handle(c chunk) {
	w.apply(c.events)
	if w.quietFor > 0 {
		w.quiet.Reset(w.quietFor)
	} else {
		w.quiet.Stop()
	}
	w.enforce()
}

// enforce kills an agent that has exceeded a limit.
func (w *watch) enforce() {
	if w.out.result != nil {
		return // limits are checked before the next run
	}
	w.loop.estimateReported(&w.out)
	switch l, used := w.loop, w.out.largest(); {
	case w.out.noKey.Fault != stream.NoFault:
		w.kill(endKeyRefused) // it would retry for minutes
	case l.overCost(used.CostUSD):
		w.kill(endOverCost)
	case l.overTokens(used.Tokens):
		w.kill(endOverTokens)
	}
}

func (w *watch) apply(events []event.Event) {
	for _, e := range events {
		switch e := e.(type) {
		case event.Usage:
			if e.Tokens != nil {
				w.out.usage.Tokens = e.Tokens
			}
			if e.CostUSD != nil {
				w.out.usage.CostUSD = e.CostUSD
			}
		case event.Model:
			w.out.model, w.out.asking = e.Name, w.out.asking || w.out.model == ""
		case event.Text:
			w.out.asking, w.out.retry = false, ""
		case event.Tool:
			w.out.asking, w.out.retry = false, ""
			w.out.startWrite(e)
		case event.ToolResult:
			w.out.endWrite(e)
		case event.RateLimit:
			w.out.limit = stream.Message{Fault: stream.RateLimited, RateLimit: e}
		case event.Retry:
			w.out.retries, w.out.retry, w.out.asking = w.out.retries+1, e.Text, true
		case event.Complaint:
			w.out.complaint = e.Text
		case event.Denied:
			w.out.denied = e
		case event.HookFailed:
			if w.out.hooks = append(w.out.hooks, e.Text); len(w.out.hooks) > maxHookErrors {
				w.out.hooks = w.out.hooks[1:]
			}
		case event.KeyRefused:
			w.out.noKey = stream.Message{Fault: stream.KeyRefused}.WithText(cmp.Or(strings.TrimSpace(e.Text), "no key"))
		case event.Resumed: // the result was not final
			w.out.result = nil
			w.quietFor = w.loop.Bounds.Idle
		case event.Result:
			w.out.result = &e
			if grace := w.loop.Bounds.Grace; grace > 0 {
				w.quietFor = grace
			}
		}
	}
	w.loop.logOutput(events, w.out.known())
}

// signal passes the first SIGINT to the agent; any other signal kills it.
func (w *watch) signal(sig os.Signal) {
	again := w.end == endInterrupted
	w.end = endInterrupted
	if sig != os.Interrupt || again || w.killed != nil {
		w.kill(endInterrupted)
		return
	}
	w.printf("\nWaiting for %s to finish cleanup... Press Ctrl+C again to force quit.\n", w.loop.Agent.Name())
	if w.loop.Session.Sandboxed {
		w.printf("To let a run finish its task instead, use \"docker ralph stop\".\n")
	}
	w.child.Interrupt()
}

// printf prints without blocking the supervision.
func (w *watch) printf(format string, args ...any) {
	select {
	case <-w.loop.out.writeAsync(fmt.Sprintf(format, args...)):
	case <-time.After(writeGrace):
	}
}

// timer returns a timer that fires after d, or never if d is 0.
func timer(d time.Duration) *time.Timer {
	if d > 0 {
		return time.NewTimer(d)
	}
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// watchdogGrace is how long after its timeout a run may take to end.
const watchdogGrace = time.Minute

// armWatchdog arms the watchdog for one run or check. A failure is only a warning: the watchdog
// is a second line of defense.
func (l *loop) armWatchdog(timeout time.Duration) (disarm func()) {
	if l.Watchdog == nil || timeout <= 0 {
		return func() {}
	}
	set := func(d time.Duration) {
		if err := l.Watchdog(d); err != nil {
			l.warnOnce("watchdog", "%s; a hanging loop is not stopped", err)
		}
	}
	set(timeout + watchdogGrace)
	return func() { set(0) }
}
