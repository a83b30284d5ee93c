// Package loop runs an agent repeatedly, each time as a fresh process, until the
// backlog is done, a bound is reached, or the loop is interrupted.
package loop

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/amend"
	"github.com/docker-ralph/docker-ralph/ralph/attempt"
	"github.com/docker-ralph/docker-ralph/ralph/prices"
	"github.com/docker-ralph/docker-ralph/ralph/screen"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
	"github.com/docker-ralph/docker-ralph/wire/usage"
)

// Options configure a loop.
type Options struct {
	Agent   agent.Adapter
	Session agent.Session
	// Env is the environment of the agent, as KEY=value.
	Env []string
	// AgentID identifies the agent in the backlog; empty if it is not registered.
	AgentID string
	// MaxIterations limits the runs; 0 means no limit.
	MaxIterations int
	// Timeout limits one run; 0 means no limit.
	Timeout time.Duration
	// Watchdog makes the sandbox stop after a time, in case this loop hangs; 0 disarms
	// it. It is nil without a watchdog.
	Watchdog func(time.Duration) error
	Bounds   config.Loop
	// Checks are shell commands, run in Dir, that must pass before a finished task
	// counts.
	Checks []string
	Dir    string
	// Backlog is nil outside a repository; then work always remains.
	Backlog session.Backlog
	// DryRun says that the backlog is a copy, whose changes are shown and discarded.
	DryRun bool
	// OnWait has the backlog report when it begins and ends to wait for its host. It may be nil.
	OnWait func(report func(waiting bool))
	// Head returns the worktree's commit, or "". Count counts the commits between two.
	Head  func(context.Context) string
	Count func(ctx context.Context, from, to string) int
	// Has reports whether the repository has a commit. Committed reports whether the branch contains it; Uncommitted
	// returns the uncommitted state of the worktree. Both may be nil.
	Has         func(ctx context.Context, commit string) bool
	Committed   func(ctx context.Context, commit string) bool
	Uncommitted func(context.Context) (attempt.State, error)
	// Attempts keeps what runs have left. It is nil if the loop must not change the worktree.
	Attempts Attempts
	// Reset sets the branch and its files to a commit, or to none if that is empty, and reports what it did. It is nil
	// in a git directory of the user: what a run has committed there stays.
	Reset func(ctx context.Context, commit string) (notes []string, err error)
	// Accepted is the last commit of the branch that the host has taken; empty if unknown. Died are the tasks of agents
	// that have died since.
	Accepted string
	Died     []session.Released
	// LeaveOut records the commits before a run; remove then removes from the new ones what
	// cannot leave the sandbox. It is nil if the loop must not rewrite commits.
	LeaveOut func(context.Context) (remove func(context.Context) (amend.LeftOut, error), err error)
	// TempFiles records the temporary files; clean removes those made since. It is nil if
	// the loop must not remove any.
	TempFiles func() (clean func() error)
	// OtherSession returns the command of another session in the sandbox, which works on
	// the same files, or "". It may be nil.
	OtherSession func() string
	// Restore switches the worktree back to the loop's branch after a run and reports
	// what it did; nil if the loop must not change the worktree.
	Restore func(context.Context) (notes []string, err error)
	// OffBranch records the branches before a run; find then returns the commits that the
	// run has made elsewhere, and those of named ones that the branch lacks. It may be nil.
	OffBranch func(context.Context) (find func(ctx context.Context, named []string) ([]string, error), err error)
	// Refused returns the connections blocked since the previous call, or is nil.
	// RefusedText is the note about them for the next run (see [agent.RefusedPrompt]).
	Refused     func(context.Context) denylog.Answer
	RefusedText string
	// Metered returns what the proxy has counted since the previous call; nil without a
	// proxy.
	Metered func(context.Context) (usage.Spent, error)
	// Prices are for the estimated cost of what it has counted.
	Prices prices.Table
	// Log is nil without a log. LogAt describes for users where it is.
	Log   *runlog.Log
	LogAt string
	// Flush waits until the host has the log. It is nil if the log is here.
	Flush func(context.Context) error
	// Earlier are the iterations of the resumed loop, Resumed is why it is resumed.
	Earlier []runlog.Iteration
	Resumed string
	// Limits reads the sandbox's limits and usage; nil if unknown.
	Limits func() Cgroup
	// FullDisk names a full disk that runs write to, with a remedy; both are empty if
	// none is full. FullTemp does the same for temporary files. Both may be nil.
	FullDisk, FullTemp func() (reason, remedy string)
	// Signals interrupt the loop: the first SIGINT of a run is passed to the agent; a
	// second one, or any other signal, kills it.
	Signals <-chan os.Signal
	// Finish receives a signal to stop after the current run. It may be nil.
	Finish         <-chan os.Signal
	Stdout, Stderr io.Writer
	// Screen shows the loop at a terminal; nil without one. Then Stdout writes to the
	// screen and to Transcript, which alone gets the format of a pipe.
	Screen     *screen.Screen
	Transcript io.Writer

	timing timing
}

// timing has the intervals of a loop that tests shorten.
type timing struct {
	drain  time.Duration // how long the output of escaped processes is read after the agent's exit
	poll   time.Duration // between checks for claimable tasks, lost claims and exhausted limits
	pause  time.Duration // after the first run that found no claimable task; it doubles
	outage time.Duration // the first pause for an outage; it doubles
}

var defaultTiming = timing{drain: 10 * time.Second, poll: 2 * time.Second, pause: time.Second, outage: 5 * time.Second}

// loop is a running loop.
type loop struct {
	Options
	out, errs   *syncWriter
	live        *syncWriter // to the screen only; nil without one
	plain       *syncWriter // in the format of a pipe: out, or the transcript
	started     time.Time
	iterations  []runlog.Iteration
	totals      Totals
	note        string              // for the next run
	denied      denylog.Answer      // connections blocked during the last run
	leftOut     string              // note about the last run's commits
	attempts    map[string][]string // refs by task
	runs        int                 // without those that the model did not serve
	failures    int                 // failed runs in a row
	lastFailure string
	lastEnd     end
	unassigned  unassigned
	before      changes // uncommitted before the run
	accepted    string  // the last commit that was accepted, or that the loop has started at
	broken      brokenChecks
	answered    bool            // a model has answered a run
	blocked     int             // tasks in a row that were blocked after too many failures
	failed      bool            // the last run failed and finished nothing
	attempted   map[string]bool // tasks of all runs
	last        snapshot
	initial     map[string]session.Task // before the first run
	// What the proxy has counted beyond the usage that agents have reported.
	unreportedTokens int64
	unreportedUSD    float64
	guessed          bounded       // the last cost that counts as at most that
	costUnknown      bool          // although it has a limit
	stalled          int           // runs in a row without progress
	pause            time.Duration // before the next run
	waited           time.Duration // for the model, in a row
	waits            int           // in a row
	warned           sync.Map      // keys of warnOnce
	finishing        bool          // stop after the current run
	interrupted      bool          // a signal came while printing
	running          atomic.Bool   // an agent
	lostHost         error         // why the backlog of a host cannot be read
	events           events
}

// Report is the result of a loop.
type Report struct {
	Stop Stop
	// Iterations are those of this loop; Totals include the resumed one's.
	Iterations []runlog.Iteration
	Totals     Totals
}

// Run runs the loop. It returns an error unless the loop succeeded or was stopped by a
// signal.
func Run(ctx context.Context, o Options) (Report, error) {
	l := &loop{
		Options: o, out: newSyncWriter(o.Stdout), started: time.Now(),
		totals: totalsOf(o.Earlier), attempted: map[string]bool{},
	}
	for _, it := range o.Earlier {
		for _, slug := range it.Tasks {
			l.attempted[slug] = true
		}
	}
	l.addEarlier()
	l.timing = cmp.Or(l.timing, defaultTiming)
	l.errs = newSyncWriter(o.Stderr)
	l.Stderr = l.errs
	l.plain = l.out
	if l.Screen != nil {
		l.live, l.plain = newSyncWriter(l.Screen), newSyncWriter(l.Transcript)
	}
	if l.Refused != nil {
		l.Refused(ctx) // skip earlier ones
	}
	if noGit := l.restoreBranch(ctx); noGit != nil && l.Reset != nil { // no agent could commit
		return Report{Stop: NoGit, Totals: l.totals}, noGit
	} else if noGit != nil { // checked again after the run
		l.warnf("%s", noGit)
	}
	if l.OnWait != nil {
		l.OnWait(l.showWait)
		defer l.OnWait(func(bool) {})
	}
	stop, err := NoGit, l.settleEarlier(ctx)
	if err == nil {
		stop, err = l.loop(ctx)
	}
	return Report{Stop: stop, Iterations: l.iterations, Totals: l.totals}, err
}

func (l *loop) loop(ctx context.Context) (Stop, error) {
	for {
		if l.MaxIterations > 0 && l.runs >= l.MaxIterations {
			return l.end(ctx, LimitReached, nil)
		}
		defaulted := l.applyDefaults(ctx)
		before := l.observe(ctx)
		if l.lostHost != nil {
			stop, err := l.withoutHost(l.lostHost)
			return l.end(ctx, stop, err)
		}
		if len(l.iterations) == 0 {
			l.initial = before.tasks
		}
		l.logStart()
		l.reportDefaults(defaulted)
		if l.complete(before) {
			return l.end(ctx, Complete, nil)
		}
		if stop, err := l.bound(); stop != noStop {
			return l.end(ctx, stop, err)
		}
		if l.pauseInterrupted(ctx, l.pause) {
			return l.end(ctx, l.waitStopped(), nil)
		}
		if l.allClaimed(ctx, before) {
			l.pause = min(max(l.timing.pause, 2*l.pause), maxPause)
			continue
		}
		after, stop, err := l.iterate(ctx, before)
		if stop != noStop {
			return l.end(ctx, stop, err)
		}
		if l.complete(after) {
			return l.end(ctx, Complete, nil)
		}
		if l.finishing {
			return l.end(ctx, Stopped, nil)
		}
		if l.waits == 0 { // a rate-limited run does not count
			l.separate()
		}
	}
}

// complete reports whether no task is left to build. An unreadable backlog is not
// complete.
func (l *loop) complete(s snapshot) bool {
	return l.Session.Mode == agent.Build && s.known && s.status.Open == 0 && s.status.Active == 0
}

// end prints the summary and, after success, why the loop ended.
func (l *loop) end(ctx context.Context, stop Stop, err error) (Stop, error) {
	l.saveNow(true)
	l.sumPlan()
	l.summarize()
	switch stop {
	case LimitReached:
		l.printf("Reached max iterations: %d\n", l.MaxIterations)
		stop, err = l.verdict(ctx, stop)
	case Complete:
		if stop, err = l.verdict(ctx, stop); stop == Complete {
			l.print(l.plain, allComplete)
			if l.last.status != (session.Status{}) {
				l.printLive(allComplete)
			}
		}
	case Stopped:
		l.printf("Stopped. Exiting loop.\n")
	}
	if failed := l.out.err(); failed != nil {
		return Failed, failed
	}
	return stop, err
}

// allComplete is printed in a pipe even if there never was a task.
const allComplete = "All tasks complete. Exiting loop.\n"

// verdict returns an error for a loop that ended without doing its work.
func (l *loop) verdict(ctx context.Context, stop Stop) (Stop, error) {
	left, s := l.unfinished(), l.last.status
	switch {
	case l.failed && (stop == LimitReached || len(left) > 0):
		return runFailed(l.lastEnd), fmt.Errorf("the agent %s failed: %s", l.Agent.Name(), l.lastFailure)
	case len(left) > 0:
		err := fmt.Errorf("unfinished tasks: %s", cut(termsafe.Strip(strings.Join(left, ", "))))
		return Unfinished, hint.Wrap(err, "see why with %q", l.taskCommand("show "+termsafe.Strip(left[0])))
	case l.broken.inRow > 0:
		return BrokenCheck, l.brokenCheck()
	case l.unassigned.reason != "":
		return Unfinished, fmt.Errorf("the commits of the last run were not accepted: %s", brief(l.unassigned.reason))
	case stop == LimitReached:
	case s.Question > 0:
		return Questions, hint.Wrap(fmt.Errorf("only questions are left: %s", cut(termsafe.Strip(strings.Join(l.last.waiting(), ", ")))),
			"list them with %q, and answer with %q", l.questionCommand("questions"), l.questionCommand("answer TASK ANSWER"))
	case s.Blocked+s.Waiting > 0:
		return Unfinished, hint.Wrap(fmt.Errorf("only blocked and waiting tasks are left: %d", s.Blocked+s.Waiting), "list them with %q", l.taskCommand("list"))
	case l.last.known && s == session.Status{}:
		l.warnf("the backlog has no tasks")
		if adopt, err := l.Backlog.AdoptHint(ctx); err == nil && adopt != "" {
			l.print(l.errs, termsafe.Line(adopt)+"\n")
		}
		l.print(l.errs, fmt.Sprintf("Hint: create one with %q, or have the agent plan with %q\n", l.taskCommand("create ID TITLE"), l.command("plan")))
	}
	return stop, nil
}

// unfinished lists the attempted tasks that are not done and do not wait for the user, sorted.
func (l *loop) unfinished() []string {
	var left []string
	for slug := range l.attempted {
		if task, there := l.last.tasks[slug]; there && isOpen(task) {
			left = append(left, slug)
		}
	}
	slices.Sort(left)
	return left
}

// command returns the command line for a command where the loop was started.
func (l *loop) command(name string) string {
	if l.Session.Sandboxed {
		return "docker ralph " + name
	}
	return "ralph " + name
}

// questionCommand returns the command line for a command about questions.
func (l *loop) questionCommand(name string) string {
	if l.Session.Sandboxed {
		return l.command(name)
	}
	return l.taskCommand(name)
}

func (l *loop) taskCommand(name string) string { return l.command("task " + name) }

func (l *loop) separate() {
	l.runs++
	const rule = "========================"
	l.print(l.plain, fmt.Sprintf("\n\n%s LOOP %d %s\n", rule, l.runs, rule))
}

func (l *loop) printf(format string, args ...any) { l.print(l.out, fmt.Sprintf(format, args...)) }

func (l *loop) warnf(format string, args ...any) {
	l.print(l.errs, fmt.Sprintf("Warning: %s\n", termsafe.Strip(fmt.Sprintf(format, args...))))
}

// hint prints the remedy for a warning.
func (l *loop) hint(format string, args ...any) {
	_, _ = fmt.Fprintf(l.Stderr, "Hint: "+format+"\n", args...)
}

// warnOnce prints a warning that would otherwise repeat. It is safe for concurrent use.
func (l *loop) warnOnce(key, format string, args ...any) {
	if _, warned := l.warned.LoadOrStore(key, true); !warned {
		l.warnf(format, args...)
	}
}
