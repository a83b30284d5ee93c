package loop

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/docker/go-units"

	"github.com/docker-ralph/docker-ralph/hint"
)

// limit is a sandbox limit that a run has reached.
type limit struct{ reason, remedy string }

// limitWatch compares the sandbox's resource usage with that at the start of a run.
type limitWatch struct {
	read  func() Cgroup // nil if unknown
	start Cgroup
	full  int // consecutive reads at the process limit
}

func (l *loop) watchLimits() *limitWatch {
	w := &limitWatch{read: l.Limits}
	if w.read != nil {
		w.start = w.read()
	}
	return w
}

const (
	// processReserve is the distance from the limit at which a sandbox is full.
	processReserve = 16
	// maxFull is how many consecutive reads must find it full: an agent may recover.
	maxFull = 2
)

// stuck reports whether the agent has exhausted the process limit for good.
func (w *limitWatch) stuck() bool {
	if w.read == nil {
		return false
	}
	now := w.read()
	if now.MaxProcesses > 0 && now.ForksRefused > w.start.ForksRefused && now.Processes > now.MaxProcesses-processReserve {
		w.full++
	} else {
		w.full = 0
	}
	return w.full >= maxFull
}

// reached returns the limit that a run has reached, or nil: the likely reason for its
// failure.
func (w *limitWatch) reached(how end) *limit {
	if w.read == nil {
		return nil
	}
	switch now := w.read(); {
	case how == endProcesses || how == endExited && now.ForksRefused > w.start.ForksRefused:
		return w.processes()
	case how == endExited && now.OOMKills > w.start.OOMKills:
		return &limit{
			fmt.Sprintf("out of memory: the limit is %s", units.BytesSize(float64(now.MaxMemory))),
			"raise the limit with --memory and --recreate, or with memory under [sandbox.resources]",
		}
	}
	return nil
}

// fullDisk returns the full disk as a limit, or nil.
func (l *loop) fullDisk() *limit {
	for _, full := range []func() (reason, remedy string){l.FullDisk, l.FullTemp} {
		if full == nil {
			continue
		}
		if reason, remedy := full(); reason != "" {
			return &limit{reason, remedy}
		}
	}
	return nil
}

// exhausted returns the limit of the sandbox that a run has reached, or nil.
func (o outcome) exhausted() *limit {
	if o.end == endIdle || o.end == endTimedOut {
		return nil
	}
	return o.cause
}

// explain adds the limit that a run has reached to the reasons of the tasks that the agent has failed itself: it may
// not know it.
func (l *loop) explain(ctx context.Context, it *iteration) {
	full := it.exhausted()
	if full == nil || len(it.failedByAgent) == 0 {
		return
	}
	for _, slug := range it.failedByAgent {
		if err := l.Backlog.Explain(ctx, slug, full.reason); err != nil {
			l.warnf("recording why task %s has failed: %s", slug, err)
		}
	}
	if !it.failed() { // else it is reported as that of the run
		l.warnf("the agent gave up: %s", full.reason)
		l.hint("%s", full.remedy)
	}
}

// exceeded returns the limit of the user that ended a run, or nil.
func (l *loop) exceeded(how end) *limit {
	switch how {
	case endTimedOut:
		return &limit{fmt.Sprintf("the run exceeded its time limit of %s", l.Timeout), "make tasks smaller, or raise timeout_minutes"}
	case endIdle:
		return &limit{fmt.Sprintf("no output for %s", l.Bounds.Idle), "see the log, or raise idle"}
	}
	return nil
}

func (w *limitWatch) processes() *limit {
	return &limit{
		fmt.Sprintf("process limit (%d) reached", w.start.MaxProcesses),
		"raise the limit with RALPH_PIDS and --recreate, or with pids under [sandbox.resources]",
	}
}

// explain adds the process limit to the error of starting a program, if it is the cause.
func (w *limitWatch) explain(err error) error {
	if w.read == nil || w.start.MaxProcesses == 0 || !errors.Is(err, syscall.EAGAIN) {
		return err
	}
	return hint.Wrap(fmt.Errorf("%w: %s", err, w.processes().reason), "%s", w.processes().remedy)
}
