// Package loop runs an agent again and again: a fresh process each time, until
// the backlog is done, a bound is reached, or somebody interrupts.
package loop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
)

// Reasons that the backlog records for a task whose agent did not finish it.
const (
	reasonCrashed     = "session exited without completing task"
	reasonInterrupted = "session interrupted"
	reasonTimedOut    = "session exceeded its time limit"
)

// maxFailures is how many runs in a row may fail without changing anything.
const maxFailures = 3

// Backlog is what the loops need of the backlog.
type Backlog interface {
	// Status says how much there is to do.
	Status(ctx context.Context) (Status, error)
	// Held returns the active tasks of an agent.
	Held(ctx context.Context, agentID string) ([]string, error)
	// Release gives an active task back.
	Release(ctx context.Context, slug, reason string) error
}

// Status is what the loops want to know about a backlog.
type Status struct {
	Open, Active int // tasks that are not blocked
	Blocked      int
	// Fingerprint changes when a run achieves something. Claiming a task and
	// giving it back is not an achievement.
	Fingerprint string
}

// Options are what one loop works with.
type Options struct {
	Agent   agent.Adapter
	Session agent.Session
	// Env is the environment of the agent, as KEY=value.
	Env []string
	// AgentID is the agent's name in the backlog; empty if it has none.
	AgentID string
	// MaxIterations bounds the runs; 0 means no bound.
	MaxIterations int
	// Timeout bounds one run; 0 means no bound. An agent that does not come
	// to an end has run into something that the next one would meet too.
	Timeout time.Duration
	// Backlog is nil where there is none; then work always remains.
	Backlog Backlog
	// Head returns the commit of the work tree, or "".
	Head func(context.Context) string
	// Signals are what the user wants: the first SIGINT of a run asks the
	// agent to finish, a second one and every other signal ends it.
	Signals        <-chan os.Signal
	Stdout, Stderr io.Writer
}

// Stop is why a loop ended.
type Stop int

// The reasons to stop. With Failed there is an error that says more.
const (
	Failed       Stop = iota
	LimitReached      // MaxIterations runs were made
	Complete          // no task is open or active
	Interrupted       // a signal came
	TimedOut          // a run took longer than Timeout
)

// goOn is no reason to stop.
const goOn Stop = -1

// loop is one loop that runs.
type loop struct {
	Options
	out      *syncWriter
	runs     int           // finished runs
	failures int           // failed runs in a row
	pause    time.Duration // before the next run
}

// Run runs the loop that the session's mode names, until there is a reason to
// stop.
func Run(ctx context.Context, o Options) (Stop, error) {
	l := &loop{Options: o, out: &syncWriter{w: o.Stdout, ended: make(chan struct{})}}
	if o.Session.Mode == agent.Plan {
		return l.plan(ctx)
	}
	return l.build(ctx)
}

func (l *loop) plan(ctx context.Context) (Stop, error) {
	for !l.limitReached() {
		if stop, err := l.iterate(ctx); stop != goOn {
			return stop, err
		}
		l.separate()
	}
	return LimitReached, l.out.err()
}

func (l *loop) build(ctx context.Context) (Stop, error) {
	for !l.limitReached() {
		if l.complete(ctx) {
			return Complete, l.out.err()
		}
		if stop, err := l.iterate(ctx); stop != goOn {
			return stop, err
		}
		if l.complete(ctx) {
			return Complete, l.out.err()
		}
		l.separate()
	}
	return LimitReached, l.out.err()
}

func (l *loop) limitReached() bool {
	if l.MaxIterations == 0 || l.runs < l.MaxIterations {
		return false
	}
	l.printf("Reached max iterations: %d\n", l.MaxIterations)
	return true
}

func (l *loop) separate() {
	l.runs++
	const rule = "========================"
	l.printf("\n\n%s LOOP %d %s\n", rule, l.runs, rule)
}

// complete says whether nothing is left to do. A backlog that cannot be read
// does not end the loop.
func (l *loop) complete(ctx context.Context) bool {
	if l.Backlog == nil {
		return false
	}
	status, err := l.Backlog.Status(ctx)
	if err != nil {
		l.warnf("the backlog cannot be read: %s", err)
		return false
	}
	if status.Open > 0 || status.Active > 0 {
		return false
	}
	if status.Blocked > 0 {
		l.warnf("%d blocked task(s) remain: each depends on a task that is not done. See: ralph task list", status.Blocked)
	}
	l.printf("All tasks complete. Exiting loop.\n")
	return true
}

// iterate makes one run and says whether the loop has to stop.
func (l *loop) iterate(ctx context.Context) (Stop, error) {
	if l.interruptedDuring(l.pause) {
		return Interrupted, nil
	}
	before := l.progress(ctx)
	run, err := l.run(ctx)
	switch run.end {
	case endInterrupted:
		l.release(ctx, reasonInterrupted)
		return Interrupted, err
	case endTimedOut:
		l.release(ctx, reasonTimedOut)
		return TimedOut, errors.Join(err, fmt.Errorf("the agent %s was ended: one run may take %s. Make tasks smaller, or the limit larger (timeout_minutes)", l.Agent.Name(), l.Timeout))
	}
	l.release(ctx, reasonCrashed)
	if err != nil {
		return Failed, err
	}
	changed := l.progress(ctx) != before
	if err := l.judge(run, changed); err != nil {
		return Failed, err
	}
	l.setPause(ctx, changed)
	return goOn, nil
}

// release gives back what the agent still holds, so that no task stays behind
// with an agent that has ended.
func (l *loop) release(ctx context.Context, reason string) {
	if l.Backlog == nil || l.AgentID == "" {
		return
	}
	slugs, err := l.Backlog.Held(ctx, l.AgentID)
	if err != nil {
		l.warnf("the tasks of agent %s cannot be released; their leases will expire: %s", l.AgentID, err)
	}
	for _, slug := range slugs {
		if err := l.Backlog.Release(ctx, slug, reason); err != nil {
			l.warnf("task %s cannot be released; its lease will expire: %s", slug, err)
			continue
		}
		l.printf("failed %s\n", slug)
	}
}

func (l *loop) printf(format string, args ...any) { _, _ = fmt.Fprintf(l.out, format, args...) }

func (l *loop) warnf(format string, args ...any) {
	_, _ = fmt.Fprintf(l.Stderr, "Warning: "+format+"\n", args...)
}
