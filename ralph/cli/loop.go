package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/moby/term"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/config/runflags"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/amend"
	"github.com/docker-ralph/docker-ralph/ralph/attempt"
	"github.com/docker-ralph/docker-ralph/ralph/guest"
	"github.com/docker-ralph/docker-ralph/ralph/loop"
	"github.com/docker-ralph/docker-ralph/ralph/prices"
	"github.com/docker-ralph/docker-ralph/ralph/screen"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
	"github.com/docker-ralph/docker-ralph/wire/usage"
)

// job is an invocation of plan, build or run.
type job struct {
	flags   loopFlags
	guest   config.Guest
	adapter agent.Adapter
	session agent.Session
	stdout  *os.File // for text output
	lost    string   // how the loop that this one replaces was lost, or ""
	host    *host    // nil outside of a sandbox
}

// loop implements plan and build.
func (o Options) loop(ctx context.Context, mode agent.Mode, args []string) int {
	flags, err := parseLoopFlags(mode, args)
	switch {
	case err != nil:
		o.fail(err)
		return exitFailure
	case flags.help:
		_, _ = fmt.Fprint(o.Stdout, runflags.Of(string(mode)).Help())
		return exitOK
	}
	j, err := newJob(ctx, mode, flags)
	if err != nil {
		o.fail(err)
		return exitFailure
	}
	if err := preflight(); err != nil {
		o.fail(err)
		return exitFailure
	}
	j.stdout = o.Stdout
	if flags.json {
		j.stdout = o.Stderr
	}
	if inSandbox() {
		if j.host, err = o.connect(cmp.Or(j.guest.Loop.MaxWait, unbounded)); err != nil {
			o.fail(err)
			return exitFailure
		}
	}
	hasWork, err := j.hasWork(ctx)
	if err != nil {
		o.fail(err)
		return exitFailure
	}
	if !hasWork {
		if j.host != nil {
			o.fail(j.noSpecs(ctx))
			return exitFailure
		}
		_, _ = fmt.Fprintln(j.stdout, "Error: No specs found. Run /ralph-spec first to generate specs in ./specs/")
		return exitFailure
	}
	if err := j.adapter.Check(j.session); err != nil {
		o.fail(err)
		return exitFailure
	}
	outcome := o.runSession(ctx, j)
	if outcome.err != nil {
		o.fail(outcome.err)
	}
	if flags.json {
		return o.report(outcome)
	}
	return outcome.report.Stop.ExitCode()
}

// newJob combines the configuration and the flags.
func newJob(ctx context.Context, mode agent.Mode, flags loopFlags) (*job, error) {
	cfg, err := configuration(ctx, flags.danger)
	if err != nil {
		return nil, err
	}
	if cfg.Loop, err = flags.bound(cfg.Loop); err != nil {
		return nil, err
	}
	adapter, err := agent.Lookup(cfg.Agent, cfg.CustomAgents)
	if err != nil {
		return nil, err
	}
	as := agent.Session{
		Mode: mode, Model: flags.model, Danger: flags.danger,
		Sandboxed: cfg.Sandboxed, Bypass: cfg.Permissions == config.PermissionsBypass,
		Getenv: os.Getenv,
	}
	if as.Model == "" {
		as.Model = cfg.Model
	}
	j := &job{flags: flags, guest: cfg, adapter: adapter, session: as, lost: os.Getenv(wire.LostEnv)}
	return j, os.Unsetenv(wire.LostEnv) // not for the agent's processes
}

// outcome is the result of a session.
type outcome struct {
	report loop.Report
	log    string // directory of the loop's log, its name in a sandbox, or ""
	err    error
}

// runSession opens a session and runs the loop in it.
func (o Options) runSession(ctx context.Context, j *job) outcome {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	defer handleHangup(signals)()
	defer catchBrokenPipe()()
	finish, stopRequests := finishRequests()
	defer stopRequests()

	if j.host != nil {
		defer j.host.interruptible()()
	}

	failed := func(err error) outcome {
		if errors.Is(err, session.ErrInterrupted) {
			return outcome{report: loop.Report{Stop: loop.Interrupted}}
		}
		return outcome{report: loop.Report{Stop: loop.Failed}, err: err}
	}
	j.prepareSandbox()
	s, err := o.openSession(ctx)
	if err != nil {
		return failed(err)
	}
	stdout := io.Writer(j.stdout)
	defer func() { o.close(ctx, s, stdout) }()
	if s.top == "" && isDir(wire.PrivateGitDir) { // the host repairs it, and starts the loop again
		return outcome{report: loop.Report{Stop: loop.NoGit}, err: errors.New("git does not work in the worktree")}
	}
	if err := o.openBacklog(ctx, j, s); err != nil {
		return failed(err)
	}
	if err := j.ready(s); err != nil {
		return failed(err)
	}
	lo := j.options(ctx, s)
	list, err := prices.Builtin()
	if err != nil {
		return failed(err)
	}
	lo.Prices = list.With(j.guest.Prices)
	if err := j.watchProxy(&lo, s.top); err != nil {
		return failed(err)
	}
	watchdog, err := guest.ConnectWatchdog(ctx)
	if err != nil {
		_, _ = fmt.Fprintf(o.Stderr, "Warning: %s; a hanging loop is not stopped\n", err)
	}
	if watchdog != nil {
		defer watchdog.Close()
		lo.Watchdog = watchdog.Set
	}
	lo.Signals, lo.Finish = signals, finish
	lo.Stdout, lo.Stderr = hangupWriter{j.stdout}, hangupWriter{o.Stderr}
	lo.Screen = screen.New(j.stdout, lo.Stdout, string(j.session.Mode), os.Getenv)
	defer lo.Screen.Close()
	if err := o.openLog(ctx, j, s, &lo); err != nil {
		if _, ok := errors.AsType[lastRunLostError](err); ok {
			return outcome{report: loop.Report{Stop: loop.RunFailed}, err: err}
		}
		return failed(err)
	}
	if lo.Screen != nil {
		lo.Stdout, lo.Transcript = lo.Screen, io.Discard
		if term.IsTerminal(o.Stderr.Fd()) {
			lo.Stderr = lo.Screen
		}
	}
	if lo.Log != nil {
		log := lo.Log.Output(len(lo.Earlier))
		lo.Stdout, lo.Stderr, lo.Transcript = log.Tee(lo.Stdout), log.Tee(lo.Stderr), log
	}
	if lo.Screen == nil {
		o.banner(j, s, lo.Stdout)
	} else {
		o.banner(j, s, lo.Transcript)
		stdout = io.Discard
		_, _ = fmt.Fprintln(lo.Screen, j.title(s))
	}
	result := o.runLoop(ctx, j, lo)
	if errors.Is(result.err, loop.ErrUnread) {
		stdout = io.Discard
	}
	return result
}

// threadReserve covers all that a loop does concurrently.
const threadReserve = 24

// prepareSandbox kills leftover agents of a killed ralph, and reserves threads in case an
// agent exhausts the process limit.
func (j *job) prepareSandbox() {
	if j.session.Sandboxed {
		agent.KillLeftovers()
		guest.ReserveThreads(threadReserve)
	}
}

// prompts loads the repository's prompts in a sandbox or with --danger: they contain
// commands.
func (j *job) prompts(top string) ([]agent.Prompt, error) {
	dir := j.promptDir(top)
	if dir == "" {
		return agent.BuiltinPrompts()
	}
	return agent.LoadPrompts(dir)
}

// promptDir returns the directory of the repository's prompts, or "" if they are not
// trusted.
func (j *job) promptDir(top string) string {
	if top == "" || !j.session.Sandboxed && !j.session.Danger {
		return ""
	}
	return filepath.Join(top, ".ralph", "prompts")
}

// watchProxy connects the loop to the proxy's deny log and meter, if there is a proxy.
func (j *job) watchProxy(lo *loop.Options, top string) (err error) {
	proxy := denylog.At(os.Getenv(denylog.Env))
	if proxy == nil || !j.session.Sandboxed {
		return nil
	}
	lo.Refused = proxy.Next
	lo.Metered = usage.At(os.Getenv(denylog.Env)).Next
	lo.RefusedText, err = agent.RefusedPrompt(j.promptDir(top))
	return err
}

// options returns the options of the job's loop.
func (j *job) options(ctx context.Context, s *agentEnv) loop.Options {
	lo := loop.Options{
		Agent: j.adapter, Session: j.session, Env: j.session.Env, AgentID: s.ID,
		MaxIterations: j.flags.maxIterations,
		Timeout:       time.Duration(j.guest.TimeoutSeconds) * time.Second,
		Bounds:        j.guest.Loop, Checks: j.guest.Checks, Dir: s.top,
		Head: s.head, Count: s.countCommits, Has: s.hasCommit, Committed: s.isCommitted,
	}
	worktree := attempt.Worktree(s.top)
	lo.Uncommitted = worktree.State
	lo.FullDisk = func() (reason, remedy string) { return s.fullDisk(j.session.Sandboxed) }
	lo.Backlog, lo.DryRun = s.backlog, j.flags.dryRun
	if j.host != nil {
		lo.OnWait, lo.Flush = j.host.onWait, j.host.Flush
	}
	if j.session.Sandboxed {
		lo.Limits, lo.OtherSession = loop.ReadCgroup, guest.OtherSession
		// Without a sandbox the user may be working in the worktree.
		if branch := guest.LoopBranch(ctx, s.top, os.Getenv(wire.BranchEnv)); branch != nil {
			if branch.Private = isDir(wire.PrivateGitDir); branch.Private {
				lo.Reset, lo.Accepted, lo.Died = branch.Reset, s.accepted, s.Dead
				lo.LeaveOut = func(ctx context.Context) (func(context.Context) (amend.LeftOut, error), error) {
					start, err := amend.Worktree(s.top).Begin(ctx)
					return start.LeaveOut, err
				}
			}
			lo.Restore, lo.OffBranch = branch.Restore, branch.OffBranch
			lo.Attempts = worktree
		}
		if inContainer() { // elsewhere, others use the same directories
			lo.TempFiles, lo.FullTemp = s.tempFiles, fullTemp
		}
	}
	return lo
}

// end returns the result for the log.
func (o outcome) end() runlog.LoopEnd {
	stop := o.report.Stop
	end := runlog.LoopEnd{Stop: string(stop), ExitCode: stop.ExitCode(), Summary: o.report.Totals.String()}
	if o.err != nil {
		end.Error = termsafe.Line(o.err.Error())
	}
	return end
}

// runLoop runs the loop and logs the result.
func (o Options) runLoop(ctx context.Context, j *job, lo loop.Options) outcome {
	var result outcome
	result.report, result.err = loop.Run(ctx, lo)
	lo.Screen.Close()
	if errors.Is(result.err, syscall.EPIPE) {
		result.err = errors.New("output was closed: the agent was stopped and its task released")
	}
	if lo.Log != nil {
		result.log = lo.LogAt
		if j.host != nil {
			result.log = lo.Log.Loop.ID
		}
		if result.err != nil { // only for the log
			lo.Log.Note(fmt.Sprintf("Error: %s\n", result.err))
		}
		if err := lo.Log.Finish(result.end()); err != nil {
			_, _ = fmt.Fprintf(o.Stderr, "Warning: %s\n", err)
		}
	}
	return result
}
