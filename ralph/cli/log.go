package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/docker/go-units"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/loop"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// openLog creates the loop's log or opens that of the resumed loop. The log is optional.
func (o Options) openLog(ctx context.Context, j *job, s *agentEnv, lo *loop.Options) (err error) {
	about := runlog.Loop{
		Mode: string(j.session.Mode), Agent: j.adapter.Name(), AgentID: s.ID, Started: time.Now().UTC(),
		Dispatch: os.Getenv(wire.DispatchEnv),
	}
	about.Repo, about.Branch = s.scope.Repo, s.scope.Branch
	if j.lost != "" && about.Dispatch != "" {
		return o.recoverLog(ctx, j.lost, s, about, lo)
	}
	if j.flags.resume {
		lo.Log, lo.Earlier, err = runlog.Resume(s.top, about, s.isRunning)
		lo.Resumed = "--resume"
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

// lastRunLostError reports how the last requested run was lost.
type lastRunLostError string

func (e lastRunLostError) Error() string { return "the last run did not finish: " + string(e) }

// recoverLog continues the log of the loop that was lost with its sandbox, and counts
// its runs.
func (o Options) recoverLog(ctx context.Context, lost string, s *agentEnv, about runlog.Loop, lo *loop.Options) error {
	if now := loop.ReadCgroup(); now.OOMKills > 0 {
		lost += " (out of memory: the limit is " + units.BytesSize(float64(now.MaxMemory)) + ")"
	}
	log, earlier, runs, err := runlog.Recover(s.top, about, loop.OutcomeFailed, lost, func(agentID string) []string { return s.finishedBy(ctx, agentID) })
	if err != nil { // lost before it was created, or with the sandbox
		o.createLog(s.top, about, lo)
		runs = 1
	} else {
		lo.Log, lo.Earlier, lo.Resumed = log, earlier, lost
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
