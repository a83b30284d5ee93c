package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/docker/go-units"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/loop"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// openLog creates the loop's log or opens that of the resumed loop. The log is optional.
func (o Options) openLog(ctx context.Context, j *job, s *agentEnv, lo *loop.Options) (err error) {
	r := session.LogRequest{Loop: runlog.Loop{
		Mode: string(j.session.Mode), Agent: j.adapter.Name(), AgentID: s.ID, Started: time.Now().UTC(),
		Repo: s.scope.Repo, Branch: s.scope.Branch,
	}}
	switch {
	case j.lost != "" && j.host != nil:
		err = o.recoverLog(ctx, j, r, lo)
	case j.flags.resume:
		err = j.resumeLog(ctx, s, r, lo)
	default:
		err = o.createLog(ctx, j, s, r, lo)
	}
	if lo.Log != nil {
		lo.LogAt = j.logAt(lo.Log.Loop.ID)
	}
	return err
}

// logAt describes for users where the log of a loop is.
func (j *job) logAt(id string) string {
	if j.host != nil {
		return "docker ralph logs --loop " + id
	}
	return ".ralph/logs/" + id
}

// createLog creates a log. Without one the loop goes on, but not without its host.
func (o Options) createLog(ctx context.Context, j *job, s *agentEnv, r session.LogRequest, lo *loop.Options) (err error) {
	switch {
	case j.host != nil:
		lo.Log, _, _, err = j.host.OpenLog(ctx, r)
	case isDir(s.top):
		var dir string
		if dir, err = runlog.MakeDirIn(s.top); err == nil {
			lo.Log, err = runlog.Create(dir, r.Loop)
		}
	}
	if err == nil || errors.Is(err, session.ErrNoHost) || errors.Is(err, session.ErrInterrupted) {
		return err
	}
	_, _ = fmt.Fprintf(o.Stderr, "Warning: %s; continuing without a log\n", err)
	return nil
}

// resumeLog continues the log of the last loop.
func (j *job) resumeLog(ctx context.Context, s *agentEnv, r session.LogRequest, lo *loop.Options) (err error) {
	lo.Resumed = "--resume"
	switch r.Resume = true; {
	case j.host != nil:
		lo.Log, lo.Earlier, _, err = j.host.OpenLog(ctx, r)
	case s.top == "":
		err = fs.ErrNotExist
	default:
		lo.Log, lo.Earlier, err = runlog.Resume(runlog.DirIn(s.top), r.Loop, s.isRunning)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return hint.Wrap(fmt.Errorf("no %s loop to resume on this branch", j.session.Mode), "start one without --resume")
	}
	if errors.Is(err, runlog.ErrRunning) {
		return hint.Wrap(fmt.Errorf("resuming the last %s loop: %w", j.session.Mode, err), "start a second one without --resume, or wait until it ends")
	}
	return err
}

// lastRunLostError reports how the last requested run was lost.
type lastRunLostError string

func (e lastRunLostError) Error() string { return "the last run did not finish: " + string(e) }

// recoverLog continues the log of the loop that was lost with its sandbox, and counts
// its runs.
func (o Options) recoverLog(ctx context.Context, j *job, r session.LogRequest, lo *loop.Options) error {
	lost := j.lost
	if now := loop.ReadCgroup(); now.OOMKills > 0 {
		lost += " (out of memory: the limit is " + units.BytesSize(float64(now.MaxMemory)) + ")"
	}
	again := r
	again.Recover, again.Outcome, again.Reason = true, loop.OutcomeFailed, lost
	log, earlier, runs, err := j.host.OpenLog(ctx, again)
	if err == nil {
		lo.Log, lo.Earlier, lo.Resumed = log, earlier, lost
	} else { // lost before it was created
		runs = 1
		if err := o.createLog(ctx, j, nil, r, lo); err != nil {
			return err
		}
	}
	if lo.MaxIterations > 0 {
		if lo.MaxIterations -= runs; lo.MaxIterations <= 0 {
			err := lastRunLostError(lost)
			if lo.Log != nil {
				return errors.Join(err, lo.Log.Finish(runlog.LoopEnd{Stop: string(loop.RunFailed), ExitCode: loop.RunFailed.ExitCode(), Error: err.Error(), Summary: lost}))
			}
			return err
		}
	}
	return nil
}
