package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Result is the outcome of a command.
type Result struct {
	Code    int
	Sandbox lifecycle.Sandbox // without a name if it could not be started
	Err     error             // why the command did not run, or its exit code is unknown

	lost error // why the command may still run
}

// execute ensures the sandbox and runs the command. A loop that dies with its sandbox is
// restarted after a repair.
func (h session) execute(ctx context.Context, r Ready) (ended Result) {
	command, ready := r.opts.Command, r.spec
	leave, err := h.enter(ctx, r)
	if err != nil {
		return Result{Err: err}
	}
	defer leave()
	open, err := openSessions(ctx, h.Host, r.Driver, r.wt, r.cfg)
	if err != nil {
		return Result{Err: err}
	}
	defer func() {
		open.release(ctx, h, ended)
		open.close()
	}()
	ensurer, p := ensurer(h.Host, r.Target, r.use), h.process(r)
	env := p.Env
	rec := &resumer{host: h.Host, driver: r.Driver, command: command, name: ready.Name, logs: open.logs(), id: p.ID}
	start := &starter{session: h, driver: r.Driver, command: command, name: ready.Name, grace: grace(r.Driver)}
	image := ensurer.Image
	ensurer.Image = func(ctx context.Context) error {
		start.answered = true
		return image(ctx)
	}
	ensurer.Confirm = askOnce(ensurer.Confirm)
	restarted, recreate := false, r.opts.Recreate
	var lost error // of the latest command that was started
	for {
		tried := &attempted{}
		res := h.attempt(ctx, rec, open, r, ready, ensurer, recreate, p, tried)
		if res.Sandbox.Name != "" {
			start.answered, recreate = true, false
		}
		if tried.started || tried.unknown {
			lost = tried.err
		}
		res.lost = lost
		var again bool
		if again, res.Err = start.again(ctx, tried, res.Err); again {
			continue
		}
		if !restarted {
			if restarted, res.Err = h.restartFull(ctx, r.Driver, ready.Name, p.ID, tried, res.Err); restarted {
				continue
			}
		}
		if res.Err == nil && res.Code == wire.ExitNoGit && host.IsLoop(command) && r.git != nil {
			rec.blamed = "has a broken git directory" // which is restored before the next attempt
		}
		if again, res.Err = rec.died(ctx, res.Sandbox, res.Code, res.Err); !again {
			return res
		}
		p.Env = append(env[:len(env):len(env)], wire.LostEnv+"="+rec.cause)
		if err := refresh(h.Host, r.Kind, &ready); err != nil {
			res.Err = err
			return res
		}
	}
}

// enter records whose sandbox it is, and takes its turn there until leave is called.
func (h session) enter(ctx context.Context, r Ready) (leave func(), err error) {
	if !r.spec.Ephemeral {
		if err := h.SaveOwner(r.spec.Name, host.OwnerOf(r.wt)); err != nil {
			return nil, err
		}
	}
	if err := recordEngine(ctx, h.Host, r); err != nil {
		return nil, err
	}
	return h.takeTurn(ctx, r)
}

// process describes the command.
func (h session) process(r Ready) lifecycle.Process {
	p := lifecycle.Process{
		ID:      h.id,
		Lasting: host.IsLoop(r.opts.Command),
		Args:    r.args(),
		AnyCode: r.opts.AnyCode,
		Dir:     filepath.ToSlash(filepath.Join(r.wt.Root, r.wt.Prefix)),
		Env:     slices.Concat(r.env, r.cloud, sessionEnv(h.record.Record)),
	}
	if r.spec.Clone { // which may lack the subdirectory
		p.Dir = filepath.ToSlash(r.spec.Root)
		p.Env = append(p.Env, wire.SubdirEnv+"="+r.wt.Prefix)
	}
	return p
}

// attempt ensures the sandbox and runs the process. A sandbox without ralph is prepared once
// more.
func (h session) attempt(ctx context.Context, rec *resumer, open sessions, r Ready, spec lifecycle.Spec, ensurer *lifecycle.Ensurer, recreate bool, p lifecycle.Process, tried *attempted) Result {
	command, running := r.opts.Command, ctx
	ctx, stopWatch := watchConnection(ctx, r.Driver, spec.Name, sendTimeout)
	defer stopWatch()
	sb, err := ensurer.Ensure(ctx, spec, recreate)
	if err != nil {
		return Result{Err: givenUp(ctx, err)}
	}
	if rec.cause != "" {
		r.notify.Repaired(rec.cause)
	}
	rec.began, rec.away = time.Now(), false
	left := h.ReportOrphans(ctx, r.Driver, sb)
	defer open.serveLeft(ctx, sb, left, r.git)() // also while this command waits for them
	if err = h.awaitLeft(ctx, r, sb, left); err == nil {
		err = restrict(ctx, r.Choice, sb, spec)
	}
	if err != nil {
		return Result{Sandbox: sb, Err: givenUp(ctx, err)}
	}
	defer h.watchBlocked(ctx, r, sb)()
	started := h.record.Record
	started.PID = 0 // of an earlier attempt
	exec := func() (int, error) {
		config, err := stageConfig(ctx, h.Host, r, sb, r.files)
		if err != nil {
			return 0, err
		}
		p := p
		if config != nil {
			p.Args = slices.Concat(config, p.Args[1:])
		}
		if err := r.revokeUnused(ctx, h.Host, sb); err != nil {
			return 0, err
		}
		leave, err := h.shareAgents(ctx, r, sb)
		if err != nil {
			return 0, err
		}
		routed, done, err := pushKeys(ctx, h.Host, r, sb, p)
		defer func() { leave(); done() }()
		if err != nil {
			return 0, err
		}
		routed, stop, err := r.signer.serve(ctx, r, sb, routed)
		if err != nil {
			return 0, err
		}
		defer stop()
		open.forgetCopy(h.id) // what an earlier attempt has planned is planned again
		hangUp, err := open.serve(ctx, sb, started, h.began, r.git, r.notify.Event)
		if err != nil {
			return 0, err
		}
		defer hangUp()
		defer supervise(ctx, h.Host, r, spec, ensurer)()
		code, err := execSynced(ctx, r, sb, func() (int, error) {
			stopWatch()
			return h.exec(running, r, rec, sb, routed, tried)
		})
		warnUnsigned(h.Host, r, err)
		return code, err
	}
	code, err := exec()
	if errors.Is(err, lifecycle.ErrNotPrepared) {
		if sb, err = ensurer.Ensure(ctx, spec, false); err != nil {
			return Result{Err: givenUp(ctx, err)}
		}
		code, err = exec()
	}
	for commits.IsStillBusy(err) && host.IsLoop(command) {
		if err = r.git.AwaitIdle(ctx, sb); err == nil {
			code, err = exec()
		}
	}
	return Result{Code: code, Sandbox: sb, Err: givenUp(ctx, err)}
}

// shareAgents takes the lock of commands in the sandbox, and pushes to the sandbox and sets it up
// under it.
func (h session) shareAgents(ctx context.Context, r Ready, sb lifecycle.Sandbox) (leave func(), err error) {
	return h.ShareAgents(ctx, sb.Name, func(alone bool) error {
		if err := r.git.Push(ctx, sb, r.opts.Command, alone); err != nil {
			return err
		}
		return h.setUp(ctx, r, sb, alone)
	})
}

// execSynced runs a command in a sandbox, and fetches commits while it runs.
func execSynced(ctx context.Context, r Ready, sb lifecycle.Sandbox, exec func() (int, error)) (int, error) {
	if r.git == nil {
		return exec()
	}
	if sb.Clone {
		if err := r.git.Repo.SetReleased(ctx, false); err != nil {
			return 0, err
		}
	}
	leave, err := r.git.Enter(ctx, sb)
	if err != nil {
		return 0, err
	}
	defer leave()
	return exec()
}

// exec runs the process and forwards signals. Cancelling the context is a signal as well: the
// program handles it, and the sandbox stays.
func (h session) exec(ctx context.Context, r Ready, rec *resumer, sb lifecycle.Sandbox, p lifecycle.Process, tried *attempted) (int, error) {
	driver, command := r.Driver, r.opts.Command
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if rec.stopped() {
		return 0, errors.New("the sandbox was stopped")
	}
	signals, stop := h.Forward(ctx)
	defer stop()
	p.Terminal = h.Terminal
	p.Stdout, p.Stderr = termsafe.NewWriter(h.Stdout), termsafe.NewWriter(h.Stderr)
	if r.opts.Raw {
		p.Stdout = h.Stdout
	}
	p.Stdin = h.Stdin
	if _, ok := driver.(*container.Driver); ok && p.Stdin != nil {
		tried.input = &checkedInput{Reader: p.Stdin}
		p.Stdin = tried.input
	}
	defer transcribe(h.Host, h.LogsOf(sb), command, &p)()
	if h.background != nil {
		p.Lost = h.background.lost
	}
	defer h.detachWhenReady(sb, &p)()
	stdout, stderr := &startOutput{to: p.Stdout}, &startOutput{to: p.Stderr}
	p.Stdout, p.Stderr = stdout, stderr
	code, err := h.execConnected(context.WithoutCancel(ctx), driver, rec, sb, command, p, signals)
	if err == nil && (stdout.failed || stderr.failed) && processLimit(ctx, driver, sb) > 0 {
		err = errNotStarted
	} else if !errors.Is(err, lifecycle.ErrDetached) {
		err = errors.Join(err, stdout.pass(), stderr.pass())
	}
	unstarted, _ := errors.AsType[*lifecycle.NotStartedError](err)
	tried.started = unstarted == nil && !errors.Is(err, lifecycle.ErrNotPrepared) && !errors.Is(err, errNotStarted)
	tried.unknown = unstarted != nil && unstarted.Unknown
	tried.err = err
	if errors.Is(err, lifecycle.ErrDetached) {
		h.Report(fmt.Sprintf("\nDetached: ralph %s continues in sandbox %s", command, sb.Name))
		if host.IsLoop(command) {
			LeaveLoop(ctx, h.Host, sb.Name)
		}
	}
	return code, err
}

// execConnected runs the process. It follows a loop over a lost connection; another command may still
// run then.
func (h session) execConnected(ctx context.Context, driver lifecycle.Driver, rec *resumer, sb lifecycle.Sandbox, command string, p lifecycle.Process, signals <-chan os.Signal) (int, error) {
	connection, stopWatch := watchConnection(ctx, driver, sb.Name, answerTimeout)
	connection, stopSignals := h.forward(connection, driver, sb, p.ID, signals)
	code, err := driver.Exec(connection, sb, p)
	stopSignals()
	stopWatch()
	unstarted, _ := errors.AsType[*lifecycle.NotStartedError](err)
	if unstarted != nil {
		if errors.Is(context.Cause(connection), errNoAnswer) {
			unstarted.Err, err = errNoAnswer, unstarted
		}
		return 0, err
	}
	err = givenUp(connection, err)
	released := errors.Is(err, lifecycle.ErrDetached) && h.background.isDetached() // by the driver, which had to
	switch {
	case !released && !engine.ConnectionLost(err):
		return code, err
	case host.IsLoop(command):
		f := &follower{session: h, driver: driver, sb: sb, id: p.ID, command: command, out: p.Stdout, grace: grace(driver)}
		return f.rejoin(ctx, rec, signals)
	case remote(driver):
		return code, disconnected(command, sb.Name)
	}
	return code, err
}

// args are the command in the sandbox.
func (r Ready) args() []string {
	return append([]string{wire.Program, r.opts.Command}, r.opts.Args...)
}
