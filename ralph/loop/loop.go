// Package loop runs an agent again and again: a fresh process each time, until
// the backlog is done, a bound is reached, or somebody interrupts.
package loop

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

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
	// Timeout bounds one run, and one check; 0 means no bound. An agent that
	// does not come to an end has run into something that the next one would
	// meet too.
	Timeout time.Duration
	// Deadline has somebody else end everything after a time, in case that this
	// loop does not come to it; 0 takes that back. It is nil where nobody does.
	Deadline func(time.Duration) error
	// Bounds end the loop before its work is done.
	Bounds config.Loop
	// Checks are shell commands that have to pass before a finished task
	// counts. They run in Dir.
	Checks []string
	Dir    string
	// Backlog is nil where there is none; then work always remains.
	Backlog Backlog
	// Head returns the commit of the work tree, or "". Count returns how many
	// commits lie between two.
	Head  func(context.Context) string
	Count func(ctx context.Context, from, to string) int
	// Committed says whether the branch has a commit, and Uncommitted lists the
	// changes in the worktree that are not committed; nil where nobody can say.
	Committed   func(ctx context.Context, commit string) bool
	Uncommitted func(context.Context) []string
	// Restore brings the worktree back onto the loop's branch after a run, and
	// says what that took; nil where the worktree is not the loop's to change.
	Restore func(context.Context) (notes []string, err error)
	// Refused returns what the network has refused since the call before, and
	// RefusedText is what the next run is told of it (see [agent.RefusedPrompt]).
	// Refused is nil where the network refuses nothing.
	Refused     func(context.Context) denylog.Answer
	RefusedText string
	// Log is nil where nothing can be kept.
	Log *runlog.Log
	// Earlier are the iterations of the loop that this one resumes.
	Earlier []runlog.Iteration
	// Limits looks at how the sandbox stands with its engine's limits; nil where
	// nothing is known of them.
	Limits func() Cgroup
	// FullDisk returns which of the disks that a run writes to has no space left, as a
	// reason and a remedy; both are empty if none is full. It is nil where nothing is
	// known of them.
	FullDisk func() (reason, remedy string)
	// LimitIn recognises a rate limit in what a failed agent has said.
	LimitIn func(text string, now time.Time) (event.RateLimit, bool)
	// KeyIn recognises what a failed agent has said about a missing or refused key.
	KeyIn func(text string) (said string, found bool)
	// Signals are what the user wants: the first SIGINT of a run asks the
	// agent to finish, a second one and every other signal ends it.
	Signals <-chan os.Signal
	// Finish receives something when the loop shall end after the run that is
	// under way, which is not disturbed; nil where nobody can ask for it.
	Finish         <-chan os.Signal
	Stdout, Stderr io.Writer
	// Live says that somebody watches Stdout on a terminal.
	Live bool
}

// loop is one loop that runs.
type loop struct {
	Options
	runEnv      []string // of the run that was begun last
	out, errs   *syncWriter
	started     time.Time
	iterations  []runlog.Iteration // of this loop
	totals      Totals             // with those of the loop that it resumes
	note        string             // what the next run has to know
	refused     denylog.Answer     // what the next run better not tries again
	runs        int                // iterations made, without those that a rate limit ended
	failures    int                // failed runs in a row
	lastFailure string
	parked      int             // tasks in a row that were blocked after too many failures
	failed      bool            // the last run did, and finished nothing
	worked      map[string]bool // tasks that runs have worked on
	last        snapshot        // the youngest one
	stalled     int             // runs in a row without progress
	pause       time.Duration   // before the next run
	waited      time.Duration   // for rate limits in a row
	limits      int             // rate limits in a row
	told        sync.Map        // keys of warnings that are given once
	finishing   bool            // somebody has asked for the end
	interrupted bool            // a signal came while something else was under way
}

// Report is how a loop went.
type Report struct {
	Stop Stop
	// Iterations are those of this loop, Totals count a resumed one's too.
	Iterations []runlog.Iteration
	Totals     Totals
}

// Run runs the loop that the session's mode names, until there is a reason to
// stop. With every reason but those that are success or a signal there is an
// error.
func Run(ctx context.Context, o Options) (Report, error) {
	l := &loop{
		Options: o, out: newSyncWriter(o.Stdout), started: time.Now(),
		totals: totalsOf(o.Earlier), worked: map[string]bool{},
	}
	for _, it := range o.Earlier {
		for _, slug := range it.Tasks {
			l.worked[slug] = true
		}
	}
	l.errs = newSyncWriter(o.Stderr)
	l.Stderr = l.errs
	if l.Refused != nil {
		l.Refused(ctx) // what was before is not this loop's
	}
	if err := l.restoreBranch(ctx); err != nil { // the run's own checks say more
		l.warnf("%s", err)
	}
	stop, err := l.loop(ctx)
	return Report{Stop: stop, Iterations: l.iterations, Totals: l.totals}, err
}

func (l *loop) loop(ctx context.Context) (Stop, error) {
	for {
		if l.MaxIterations > 0 && l.runs >= l.MaxIterations {
			return l.end(LimitReached, nil)
		}
		if err := l.restoreBacklog(ctx); err != nil {
			return l.end(Failed, err)
		}
		before := l.look(ctx)
		if l.complete(before) {
			return l.end(Complete, nil)
		}
		if stop, err := l.bound(); stop != goOn {
			return l.end(stop, err)
		}
		if l.interruptedDuring(ctx, l.pause) {
			return l.end(l.left(), nil)
		}
		if l.othersHold(ctx, before) {
			l.pause = min(2*l.pause, lastPause)
			continue
		}
		after, stop, err := l.iterate(ctx, before)
		if stop != goOn {
			return l.end(stop, err)
		}
		if l.complete(after) {
			return l.end(Complete, nil)
		}
		if l.finishing {
			return l.end(Stopped, nil)
		}
		if l.limits == 0 { // else the run did not count
			l.separate()
		}
	}
}

// look takes a snapshot.
func (l *loop) look(ctx context.Context) snapshot {
	l.last = l.snapshot(ctx)
	return l.last
}

func (l *loop) snapshot(ctx context.Context) snapshot {
	s := snapshot{head: l.Head(ctx)}
	if l.Backlog == nil {
		return s
	}
	var err error
	if s.status, err = l.Backlog.Status(ctx); err != nil {
		l.warnOnce("backlog", "the backlog cannot be read: %s", err)
		return s
	}
	s.known = true
	if left := s.status.Open + s.status.Active + s.status.Blocked; l.Session.Mode == agent.Build {
		l.totals.Left = &left
	}
	if s.tasks, err = l.Backlog.Tasks(ctx); err != nil {
		l.warnOnce("backlog", "the backlog cannot be read: %s", err)
	}
	return s
}

// complete says whether nothing is left to build. A backlog that cannot be
// read does not end the loop.
func (l *loop) complete(s snapshot) bool {
	if l.Session.Mode != agent.Build || !s.known || s.status.Open > 0 || s.status.Active > 0 {
		return false
	}
	return true
}

// end prints what the loop came to, and why it ended if it did its work.
func (l *loop) end(stop Stop, err error) (Stop, error) {
	l.summarize()
	switch stop {
	case LimitReached:
		l.printf("Reached max iterations: %d\n", l.MaxIterations)
		stop, err = l.verdict(stop)
	case Complete:
		if stop, err = l.verdict(stop); stop == Complete {
			l.printf("All tasks complete. Exiting loop.\n")
		}
	case Stopped:
		l.printf("Stopped as asked. Exiting loop.\n")
	}
	if failed := l.out.err(); failed != nil {
		return Failed, failed
	}
	return stop, err
}

// verdict turns the end of a loop that did not do its work into an error.
func (l *loop) verdict(stop Stop) (Stop, error) {
	left, s := l.unfinished(), l.last.status
	switch {
	case l.failed && (stop == LimitReached || len(left) > 0):
		return RunFailed, fmt.Errorf("the agent %s failed: it %s", l.Agent.Name(), l.lastFailure)
	case len(left) > 0:
		err := fmt.Errorf("worked on but not done: %s", cut(termsafe.Strip(strings.Join(left, ", "))))
		return Unfinished, hint.Wrap(err, "see why with %q", l.taskCommand("show "+termsafe.Strip(left[0])))
	case stop == LimitReached:
	case s.Blocked > 0:
		return Unfinished, hint.Wrap(fmt.Errorf("only blocked tasks are left: %d", s.Blocked), "list them with %q", l.taskCommand("list"))
	case l.last.known && s == Status{}:
		l.warnf("the backlog has no tasks")
		l.print(l.errs, fmt.Sprintf("Hint: create one with %q, or have the agent plan with %q\n", l.taskCommand("create ID TITLE"), l.command("plan")))
	}
	return stop, nil
}

// unfinished lists the tasks that the loop's runs have worked on and that are not
// done, by slug.
func (l *loop) unfinished() []string {
	var left []string
	for slug := range l.worked {
		if task, there := l.last.tasks[slug]; there && task.Status != statusDone && task.Status != statusDeleted {
			left = append(left, slug)
		}
	}
	slices.Sort(left)
	return left
}

// command is how the user calls a command of ours from where the loop was
// started.
func (l *loop) command(name string) string {
	if l.Session.Sandboxed {
		return "docker ralph " + name
	}
	return "ralph " + name
}

func (l *loop) taskCommand(name string) string { return l.command("task " + name) }

func (l *loop) separate() {
	l.runs++
	const rule = "========================"
	l.printf("\n\n%s LOOP %d %s\n", rule, l.runs, rule)
}

func (l *loop) printf(format string, args ...any) { l.print(l.out, fmt.Sprintf(format, args...)) }

func (l *loop) warnf(format string, args ...any) {
	l.print(l.errs, fmt.Sprintf("Warning: %s\n", termsafe.Strip(fmt.Sprintf(format, args...))))
}

// hint says what to do about a warning.
func (l *loop) hint(format string, args ...any) {
	_, _ = fmt.Fprintf(l.Stderr, "Hint: "+format+"\n", args...)
}

// warnOnce is for what would be said after every run. Those who read what an agent
// prints call it, too.
func (l *loop) warnOnce(key, format string, args ...any) {
	if _, told := l.told.LoadOrStore(key, true); !told {
		l.warnf(format, args...)
	}
}

// deadlineGrace is how long this loop has to end what has run out of time, until
// somebody else does.
const deadlineGrace = time.Minute

// guard asks for the deadline of one run. Without one the run is made, with a
// warning: it is only there for when this loop fails.
func (l *loop) guard() (release func()) {
	if l.Deadline == nil || l.Timeout <= 0 {
		return func() {}
	}
	set := func(d time.Duration) {
		if err := l.Deadline(d); err != nil {
			l.warnOnce("deadline", "%s. A run that cannot be ended goes on without limit", err)
		}
	}
	set(l.Timeout + deadlineGrace)
	return func() { set(0) }
}
