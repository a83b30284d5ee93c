package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/docker/go-units"
	"github.com/moby/term"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/ralph/guest"
	"github.com/docker-ralph/docker-ralph/ralph/loop"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/help"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// job is what plan or build was asked to do.
type job struct {
	flags   loopFlags
	guest   config.Guest
	adapter agent.Adapter
	session agent.Session
	stdout  *os.File // for people; not where JSON goes
	// lost is what happened to the loop that this one takes the place of; empty
	// if there is none.
	lost string
}

// loop carries out plan and build.
func (o Options) loop(ctx context.Context, mode agent.Mode, args []string) int {
	flags, err := parseLoopFlags(mode, args)
	switch {
	case err != nil:
		o.fail(err)
		return exitFailure
	case flags.help:
		_, _ = fmt.Fprint(o.Stdout, help.Text(string(mode)))
		return exitOK
	}
	j, err := chooseAgent(ctx, mode, flags)
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
	if !j.hasWork(ctx) {
		_, _ = fmt.Fprintln(j.stdout, "Error: No specs found. Run /ralph-spec first to generate specs in ./specs/")
		if j.session.Sandboxed {
			_, _ = fmt.Fprintf(o.Stderr, "Hint: write specs in ./specs/, or create tasks with %q\n", "docker ralph task create ID TITLE")
		}
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

// chooseAgent combines the configuration and the flags.
func chooseAgent(ctx context.Context, mode agent.Mode, flags loopFlags) (*job, error) {
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
	return j, os.Unsetenv(wire.LostEnv) // it does not concern what the agent starts
}

// hasWork says whether there are specs, or tasks to build. Below the top of a
// work tree, where there are no specs, it goes to the top.
func (j *job) hasWork(ctx context.Context) bool {
	if hasSpecs() {
		return true
	}
	path, err := backlog.Locate(ctx)
	if err != nil {
		return false
	}
	if top := filepath.Dir(filepath.Dir(path)); isDir(top) && os.Chdir(top) == nil && hasSpecs() {
		return true
	}
	if _, err := os.Stat(path); err != nil || j.session.Mode != agent.Build {
		return false // a question makes no database
	}
	scope, err := backlog.DetectScope(ctx, os.Getenv)
	if err != nil {
		return false
	}
	status, err := tasks{path: path, scope: scope}.Status(ctx)
	return err == nil && status != loop.Status{}
}

// hasSpecs says whether ./specs holds anything.
func hasSpecs() bool {
	entries, err := os.ReadDir("specs")
	return err == nil && len(entries) > 0
}

// outcome is how a session went.
type outcome struct {
	report loop.Report
	log    string // folder of the loop's log; or ""
	err    error
}

// runSession is everything between the preflight and the exit code.
func (o Options) runSession(ctx context.Context, j *job) outcome {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	defer hearHangUp(signals)()
	defer catchBrokenPipe()()
	finish, ignore := finishRequests()
	defer ignore()

	failed := func(err error) outcome { return outcome{report: loop.Report{Stop: loop.Failed}, err: err} }
	j.guardSandbox()
	s, err := o.openSession(ctx, j.session.Mode == agent.Build)
	if err != nil {
		return failed(err)
	}
	shown := io.Writer(j.stdout)
	defer func() { o.close(ctx, s, shown) }()
	j.session.Program = s.self
	// Once: a run of the agent must not change what the next one is told.
	if j.session.Prompts, err = j.prompts(s.top); err != nil {
		return failed(err)
	}
	if j.session.TempDir, err = s.tempDir(); err != nil {
		return failed(err)
	}
	lo := j.options(ctx, s)
	if err := j.listen(&lo, s.top); err != nil {
		return failed(err)
	}
	clock, err := guest.ConnectWatchdog(ctx)
	if err != nil {
		_, _ = fmt.Fprintf(o.Stderr, "Warning: %s; the time limit of a run is not enforced\n", err)
	}
	if clock != nil {
		defer clock.Close()
		lo.Watchdog = clock.Set
	}
	lo.Signals, lo.Finish = signals, finish
	lo.Stdout, lo.Stderr = mayHangUp{j.stdout}, mayHangUp{o.Stderr}
	lo.Live = term.IsTerminal(j.stdout.Fd())
	if err := o.openLog(ctx, j, s, &lo); err != nil {
		if _, ok := errors.AsType[lastRunLostError](err); ok {
			return outcome{report: loop.Report{Stop: loop.RunFailed}, err: err}
		}
		return failed(err)
	}
	if lo.Log != nil {
		kept := lo.Log.Output(len(lo.Earlier))
		lo.Stdout, lo.Stderr = kept.Tee(lo.Stdout), kept.Tee(lo.Stderr)
	}
	o.banner(j, s, lo.Stdout)
	result := o.runLoop(ctx, lo)
	if errors.Is(result.err, loop.ErrUnread) {
		shown = io.Discard
	}
	return result
}

// prompts are the repository's own, where there is a sandbox: they hold
// commands that are run, so on a host they need the user's say-so.
func (j *job) prompts(top string) ([]agent.Prompt, error) {
	dir := j.promptDir(top)
	if dir == "" {
		return agent.BuiltinPrompts()
	}
	return agent.LoadPrompts(dir)
}

// promptDir is where the repository's own prompts are, or "" if they do not
// count.
func (j *job) promptDir(top string) string {
	if top == "" || !j.session.Sandboxed && !j.session.Danger {
		return ""
	}
	return filepath.Join(top, ".ralph", "prompts")
}

// listen has the loop hear what the sandbox's network refuses, if there is
// somebody who tells.
func (j *job) listen(lo *loop.Options, top string) (err error) {
	proxy := denylog.At(os.Getenv(denylog.Env))
	if proxy == nil || !j.session.Sandboxed {
		return nil
	}
	lo.Refused = proxy.Next
	lo.RefusedText, err = agent.RefusedPrompt(j.promptDir(top))
	return err
}

// options is the loop that the job asks for.
func (j *job) options(ctx context.Context, s *session) loop.Options {
	env := s.environ()
	j.session.Env = env
	lo := loop.Options{
		Agent: j.adapter, Session: j.session, Env: env, AgentID: s.id,
		MaxIterations: j.flags.maxIterations,
		Timeout:       time.Duration(j.guest.TimeoutSeconds) * time.Second,
		Bounds:        j.guest.Loop, Checks: j.guest.Checks, Dir: s.top,
		Head: head, Count: countCommits, Committed: isCommitted, Uncommitted: uncommitted, LimitIn: stream.RateLimitIn, KeyIn: stream.KeyRefusedIn,
	}
	lo.FullDisk = func() (reason, remedy string) { return s.fullDisk(j.session.Sandboxed) }
	if j.guest.Agent == agent.ShellName {
		lo.LimitIn = nil // it has no model: what its steps print is theirs
	}
	if s.backlog != nil {
		lo.Backlog = s.backlog
	}
	if j.session.Sandboxed {
		lo.Limits = loop.ReadCgroup
		// On a host the worktree is the user's, who may be at work in it.
		if home := guest.LoopBranch(ctx, s.top, os.Getenv(wire.BranchEnv)); home != nil {
			home.Private = isDir(wire.PrivateGitDir)
			lo.Restore = home.Restore
		}
	}
	return lo
}

// openLog makes the loop's log, or opens the one that is resumed. Without a
// work tree there is none, and where it cannot be written the loop goes on
// without it.
func (o Options) openLog(ctx context.Context, j *job, s *session, lo *loop.Options) (err error) {
	about := runlog.Loop{
		Mode: string(j.session.Mode), Agent: j.adapter.Name(), AgentID: s.id, Started: time.Now().UTC(),
		Dispatch: os.Getenv(wire.DispatchEnv),
	}
	about.Repo, about.Branch = s.scope.Repo, s.scope.Branch
	if j.lost != "" && about.Dispatch != "" {
		return o.recoverLog(ctx, j.lost, s, about, lo)
	}
	if j.flags.resume {
		lo.Log, lo.Earlier, err = runlog.Resume(s.top, about, func(id string) bool {
			return s.backlog != nil && s.backlog.alive(ctx, id)
		})
		if errors.Is(err, fs.ErrNotExist) || s.top == "" {
			return hint.Wrap(fmt.Errorf("no %s loop to resume on this branch", j.session.Mode), "start one without --resume")
		}
		if errors.Is(err, runlog.ErrRunning) {
			return hint.Wrap(fmt.Errorf("resuming the last %s loop: %w", j.session.Mode, err), "start a second one without --resume, or wait until it ends")
		}
		return err
	}
	o.createLog(s.top, about, lo)
	return nil
}

func (o Options) createLog(top string, about runlog.Loop, lo *loop.Options) {
	if !isDir(top) {
		return
	}
	var err error
	if lo.Log, err = runlog.Create(top, about); err != nil {
		_, _ = fmt.Fprintf(o.Stderr, "Warning: %s; continuing without a log\n", err)
	}
}

// lastRunLostError says what has ended the last run that was asked for.
type lastRunLostError string

func (e lastRunLostError) Error() string { return "the last run did not end: " + string(e) }

// recoverLog goes on in the log of the loop that died with its sandbox, and
// counts its runs as this loop's.
func (o Options) recoverLog(ctx context.Context, lost string, s *session, about runlog.Loop, lo *loop.Options) error {
	if now := loop.ReadCgroup(); now.OOMKills > 0 { // since the sandbox was started
		lost += ", which has run out of memory: the limit is " + units.BytesSize(float64(now.MaxMemory))
	}
	log, earlier, made, err := runlog.Recover(s.top, about, loop.OutcomeFailed, lost, func(agentID string) []string {
		if s.backlog == nil || agentID == "" {
			return nil
		}
		return s.backlog.finishedBy(ctx, agentID)
	})
	if err != nil { // it died before it had one, or the log went with it
		o.createLog(s.top, about, lo)
		made = 1
	} else {
		lo.Log, lo.Earlier = log, earlier
	}
	if lo.MaxIterations > 0 {
		if lo.MaxIterations -= made; lo.MaxIterations <= 0 {
			err := lastRunLostError(lost)
			if lo.Log != nil {
				return errors.Join(err, lo.Log.Finish(string(loop.RunFailed), loop.RunFailed.ExitCode(), lost))
			}
			return err
		}
	}
	return nil
}

// runLoop runs the loop and notes how it ended.
func (o Options) runLoop(ctx context.Context, lo loop.Options) outcome {
	var result outcome
	result.report, result.err = loop.Run(ctx, lo)
	if errors.Is(result.err, syscall.EPIPE) {
		result.err = errors.New("output was closed: the agent was stopped and its task released")
	}
	if lo.Log != nil {
		result.log = lo.Log.Dir()
		if result.err != nil { // people are told by others
			lo.Log.Note(fmt.Sprintf("Error: %s\n", result.err))
		}
		stop := result.report.Stop
		if err := lo.Log.Finish(string(stop), stop.ExitCode(), result.report.Totals.String()); err != nil {
			_, _ = fmt.Fprintf(o.Stderr, "Warning: %s\n", err)
		}
	}
	return result
}

// report prints the loop as JSON and returns the exit code.
func (o Options) report(result outcome) int {
	code := result.report.Stop.ExitCode()
	printed := struct {
		Stop       loop.Stop          `json:"stop"`
		ExitCode   int                `json:"exit_code"`
		Error      string             `json:"error,omitempty"`
		Log        string             `json:"log,omitempty"`
		Iterations []runlog.Iteration `json:"iterations"`
		Totals     loop.Totals        `json:"totals"`
	}{result.report.Stop, code, "", result.log, result.report.Iterations, result.report.Totals}
	if result.err != nil {
		printed.Error = result.err.Error()
	}
	if printed.Iterations == nil {
		printed.Iterations = []runlog.Iteration{}
	}
	out := json.NewEncoder(o.Stdout)
	out.SetEscapeHTML(false)
	if err := out.Encode(printed); err != nil {
		o.complain(fmt.Sprintf("writing the report: %s", err))
		return max(code, exitFailure)
	}
	return code
}

// banner says what is about to run.
func (o Options) banner(j *job, s *session, stdout io.Writer) {
	adapter, as, flags := j.adapter, j.session, j.flags
	var b strings.Builder
	line := func(label, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s%s\n", label, value)
		}
	}
	rule := strings.Repeat("━", 40) + "\n"
	b.WriteString(rule)
	line("Mode:   ", string(as.Mode))
	line("Prompt: ", adapter.Prompt(as))
	b.WriteString("Branch: " + s.branch + "\n")
	safe := "yes"
	if flags.danger {
		safe = "NO (--dangerously-skip-permissions)"
	}
	line("Safe:   ", safe)
	line("Backend: ", adapter.Backend(as))
	line("Agent:  ", s.id)
	if model := adapter.Model(as); as.Model != "" && model != "" {
		line("Model:  ", as.Model+" ("+model+")")
	}
	switch n := flags.maxIterations; {
	case n == 1:
		line("Max:    ", "1 iteration")
	case n > 1:
		line("Max:    ", fmt.Sprintf("%d iterations", n))
	}
	b.WriteString(rule)
	_, _ = fmt.Fprint(stdout, b.String())
	if flags.model != "" && adapter.Model(as) == "" {
		_, _ = fmt.Fprintf(o.Stderr, "Warning: --model is ignored: agent %s has no model\n", adapter.Name())
	}
}
