package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// resumer detects that a command has died with its sandbox, and decides whether to restart
// its loop.
type resumer struct {
	host    host.Host
	driver  lifecycle.Driver
	command string
	name    string // of the sandbox
	logs    string // directory of the worktree's
	id      string // of the dispatch

	began  time.Time         // of the latest attempt
	deaths int               // in a row, without a successful run in between
	cause  string            // of the latest death; empty before a restart
	away   bool              // the engine has not answered meanwhile
	sb     lifecycle.Sandbox // of the latest attempt
	blamed string            // the known cause of the next death
}

// deathsMax limits restarts in a row. A task has fewer attempts: one that kills its sandbox is
// blocked before.
const deathsMax = 5

const (
	// restartGrace is how long a stopped sandbox may take to run again.
	restartGrace = 5 * time.Second
	// resumePause is the interval of checks, and the pause before a restart.
	resumePause = 500 * time.Millisecond
)

// exitKilled and exitLost are the exit codes of a process that dies with its sandbox. Loops do
// not return them.
const (
	exitKilled = 128 + 9
	exitLost   = 255
)

// died reports whether to restart the loop after a command has ended. The error replaces the
// command's.
func (r *resumer) died(ctx context.Context, sb lifecycle.Sandbox, code int, err error) (again bool, _ error) {
	switch {
	case ctx.Err() != nil, errors.Is(err, lifecycle.ErrDetached), errors.Is(err, lifecycle.ErrNotPrepared), errors.Is(err, lifecycle.ErrDisconnected):
		return false, err
	case sb.Name == "" && r.deaths == 0:
		return false, err
	case sb.Name == "" && r.stopped(): // while it was restarted
		return false, r.stopError("was stopped")
	case sb.Name == "": // it could not be started, perhaps because it is being restarted
		if engine.ConnectionLost(err) {
			_, _ = r.interruption(ctx, r.sb, false) // waits for the engine
		}
		return r.retry(ctx), err
	case err == nil && code != exitKilled && code != exitLost && r.blamed == "":
		return false, err
	}
	r.sb = sb
	lost := engine.ConnectionLost(err)
	m, lookErr := r.interruption(ctx, sb, lost)
	if r.blamed != "" {
		m, r.blamed = lifecycle.Interruption{What: r.blamed}, ""
	}
	switch {
	case lookErr != nil:
		return false, errors.Join(err, lookErr)
	case m.Asked:
		return false, r.stopError(m.What)
	case m.What == "" && lost:
		return false, disconnected(r.command, sb.Name)
	case m.What == "" && (!host.IsLoop(r.command) || err != nil && !errors.Is(err, ErrUnknownEnd)):
		return false, err
	}
	cause := fmt.Sprintf("sandbox %s %s", sb.Name, m.What)
	if m.What == "" {
		cause = fmt.Sprintf("%q was killed in sandbox %s", "ralph "+r.command, sb.Name)
	}
	switch {
	case !host.IsLoop(r.command):
		return false, fmt.Errorf("%s while %q ran in it", cause, r.command)
	case sb.Ephemeral:
		return false, errors.New(cause) // its commits are fetched, and it is removed
	}
	if r.progressed() {
		r.deaths = 0
	}
	if !r.retry(ctx) {
		return false, hint.Wrap(fmt.Errorf("%s, %d times in a row", cause, r.deaths), "see what ended it with %q", "docker ralph logs")
	}
	r.cause = cause
	r.host.Report(fmt.Sprintf("Warning: %s: repairing it and resuming the loop", cause))
	return true, nil
}

func (r *resumer) stopError(what string) error {
	return hint.Wrap(fmt.Errorf("sandbox %s %s while %q ran in it", r.name, what, r.command), "the next command restarts it")
}

// stopped reports whether the user has stopped the sandbox.
func (r *resumer) stopped() bool { return r.host.Stopped(r.name, r.id) }

// retry counts a death, and reports whether another attempt is allowed.
func (r *resumer) retry(ctx context.Context) bool {
	r.deaths++
	return r.deaths <= deathsMax && pause(ctx) == nil
}

// progressed reports whether the last run of the latest attempt succeeded.
func (r *resumer) progressed() bool {
	for _, l := range runlog.Recent(r.logs, RecentLoops, func(l runlog.Loop) bool { return l.Dispatch == r.id }) {
		if l.Last == nil {
			continue
		}
		ended := l.Last.Started.Add(time.Duration(l.Last.Seconds * float64(time.Second)))
		return ended.After(r.began) && l.Last.Reason == ""
	}
	return false
}

// interruption returns what has happened to a sandbox. It waits for an engine that restarts.
func (r *resumer) interruption(ctx context.Context, sb lifecycle.Sandbox, lost bool) (lifecycle.Interruption, error) {
	restarted := time.Now().Add(restartGrace)
	for end := time.Now().Add(grace(r.driver)); ; {
		m, err := r.look(ctx, sb)
		switch {
		case r.stopped():
			return lifecycle.Interruption{What: "was stopped", Asked: true}, nil
		case err == nil && m.What == "" && lost && !r.away && time.Now().Before(restarted):
		case noAnswer(err) && time.Now().Before(end):
			if !r.away {
				r.host.Report("Warning: the engine does not answer: waiting for it")
				r.away = true
			}
		case m.Asked && r.away: // by its engine
			return lifecycle.Interruption{What: "was stopped with its engine"}, err
		case err != nil || !m.Asked || time.Now().After(restarted):
			return m, err
		}
		if err := pause(ctx); err != nil {
			return lifecycle.Interruption{}, err
		}
	}
}

func (r *resumer) look(ctx context.Context, sb lifecycle.Sandbox) (lifecycle.Interruption, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if d, ok := r.driver.(*container.Driver); ok {
		return d.Interruption(ctx, sb, r.began)
	}
	now, err := r.driver.Lookup(ctx, sb.Name)
	switch {
	case err != nil || now.State == lifecycle.Running:
		return lifecycle.Interruption{}, err
	case now.State == lifecycle.Unknown:
		return lifecycle.Interruption{What: "was lost"}, nil
	case now.State == lifecycle.NotFound:
		return lifecycle.Interruption{What: "was removed"}, nil
	}
	return lifecycle.Interruption{What: "was stopped"}, nil
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(resumePause):
		return nil
	}
}

// RecentLoops is how many loops of a branch or dispatch are inspected.
const RecentLoops = 5
