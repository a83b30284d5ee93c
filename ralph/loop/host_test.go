package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// remoteBacklog is a backlog whose host goes away once a file exists, and stays away: its calls fail after a wait.
type remoteBacklog struct {
	*fileBacklog
	gone   string
	failed error
	report func(waiting bool)
}

func (b *remoteBacklog) onWait(report func(bool)) { b.report = report }

func (b *remoteBacklog) call(ctx context.Context) error {
	if _, err := os.Stat(b.gone); err != nil {
		return nil //nolint:nilerr // the host is there
	}
	b.report(true)
	defer b.report(false)
	return errors.Join(ctx.Err(), b.failed)
}

func (b *remoteBacklog) Status(ctx context.Context) (session.Status, error) {
	if err := b.call(ctx); err != nil {
		return session.Status{}, err
	}
	return b.fileBacklog.Status(ctx)
}

func (b *remoteBacklog) BeginRun(ctx context.Context, _ string) error { return b.call(ctx) }

func (b *remoteBacklog) Overtaken(ctx context.Context, _ string) ([]string, error) {
	return nil, b.call(ctx)
}

const worked = `echo '{"type":"assistant","message":{"content":[{"type":"text","text":"WORKED"}]}}'; `

func TestLoopEndsWithoutItsHost(t *testing.T) {
	away := fmt.Errorf("%w: no route", session.ErrNoHost)
	for _, tc := range []struct {
		name, program, agentID string
		failed                 error
		stop                   Stop
		err                    string
	}{
		{"after a run", worked + `touch $DIR/gone`, "3c9e", away, Failed, "checking the claims of the run: docker ralph on the host does not answer: no route"},
		{"without an agent", worked + `touch $DIR/gone`, "", away, Failed, "reading the backlog: docker ralph on the host does not answer: no route"},
		{"interrupted", worked + `touch $DIR/gone`, "3c9e", session.ErrInterrupted, Interrupted, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newFileLoop(t, tc.program, newFileBacklog(t, "a"))
			remote := &remoteBacklog{fileBacklog: tr.Backlog.(*fileBacklog), gone: filepath.Join(tr.dir(), "gone"), failed: tc.failed}
			tr.Backlog, tr.OnWait, tr.AgentID = remote, remote.onWait, tc.agentID
			var err error
			tr.Log, err = runlog.Create(tr.Dir, runlog.Loop{Mode: "build"})
			assert.NilError(t, err)

			report, err := Run(t.Context(), tr.Options)
			assert.Equal(t, report.Stop, tc.stop)
			if tc.err == "" {
				assert.NilError(t, err)
			} else {
				assert.Error(t, err, tc.err)
			}
			assert.Equal(t, len(report.Iterations), 1)
			assert.Check(t, cmp.Contains(tr.out.String(), "WORKED"))
			assert.Equal(t, strings.Count(tr.errs.String(), WaitingForHost+"\n"), 1, tr.errs.String())
			events, err := os.ReadFile(filepath.Join(tr.Dir, tr.Log.Loop.ID, "events.jsonl"))
			assert.NilError(t, err)
			assert.Check(t, cmp.Contains(string(events), `"state":"waiting","text":"`+WaitingForHost+`"`))
		})
	}
}

func TestLoopEndsWithoutAHostAtItsStart(t *testing.T) {
	tr := newFileLoop(t, `touch $DIR/ran`, newFileBacklog(t, "a"))
	remote := &remoteBacklog{fileBacklog: tr.Backlog.(*fileBacklog), gone: tr.dir(), failed: session.ErrNoHost}
	tr.Backlog, tr.OnWait = remote, remote.onWait
	report, err := Run(t.Context(), tr.Options)
	assert.Error(t, err, "reading the backlog: docker ralph on the host does not answer")
	assert.Equal(t, report.Stop, Failed)
	assert.Equal(t, len(report.Iterations), 0)
}

// slowBacklog is a backlog whose host does not answer during a run.
type slowBacklog struct {
	*fileBacklog
	asked chan struct{}
}

func (b *slowBacklog) Held(ctx context.Context, _ string) ([]string, error) {
	select {
	case b.asked <- struct{}{}:
		<-ctx.Done()
		return nil, ctx.Err()
	default:
		return nil, nil
	}
}

// The agent is supervised while its loop cannot reach the backlog.
func TestRunIsSupervisedWithoutItsHost(t *testing.T) {
	tr := newFileLoop(t, "exec sleep 600", newFileBacklog(t, "a"))
	asked := make(chan struct{})
	tr.Backlog = &slowBacklog{tr.Backlog.(*fileBacklog), asked}
	tr.MaxIterations, tr.Timeout = 1, 2*time.Second
	go func() { <-asked }()
	report, err := Run(t.Context(), tr.Options)
	assert.ErrorContains(t, err, "time limit")
	assert.Equal(t, report.Stop, TimedOut)
}

// Each run begins and ends once the host has its log.
func TestLoopFlushesItsLog(t *testing.T) {
	away := fmt.Errorf("%w: no route", session.ErrNoHost)
	for _, tc := range []struct {
		name   string
		failed error
		stop   Stop
		runs   int
		err    string
		said   string
	}{
		{name: "sent", stop: LimitReached, runs: 2},
		{name: "refused", failed: errors.New("no space left"), stop: LimitReached, runs: 2, said: "Warning: no space left; continuing without that log\n"},
		{name: "without the host", failed: away, stop: Failed, runs: 1, err: "logging the run: docker ralph on the host does not answer: no route"},
		{name: "interrupted", failed: session.ErrInterrupted, stop: Interrupted, runs: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newFileLoop(t, worked, newFileBacklog(t, "a"))
			tr.MaxIterations, tr.Session.Mode = 2, agent.Plan
			logs := t.TempDir()
			var err error
			tr.Log, err = runlog.Create(logs, runlog.Loop{Mode: "plan"})
			assert.NilError(t, err)
			var flushed []int
			calls := 0
			tr.Flush = func(context.Context) error {
				if calls++; calls%2 == 1 { // as a run begins: it counts if its sandbox dies
					return nil
				}
				flushed = append(flushed, runlog.Recent(logs, 1, runlog.Any)[0].Last.N)
				return tc.failed
			}

			report, err := Run(t.Context(), tr.Options)
			assert.Equal(t, report.Stop, tc.stop)
			if tc.err == "" {
				assert.NilError(t, err)
			} else {
				assert.Error(t, err, tc.err)
			}
			assert.DeepEqual(t, flushed, []int{1, 2}[:tc.runs])
			assert.Equal(t, strings.Count(tr.errs.String(), "continuing without that log\n"), min(1, len(tc.said)))
			assert.Check(t, cmp.Contains(tr.errs.String(), tc.said))
		})
	}
}
