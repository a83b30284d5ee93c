package loop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

func TestFinishRequestLetsTheRunComplete(t *testing.T) {
	tr := newTestLoop(t, agent.Build, `trap 'touch $DIR/disturbed' INT TERM USR1; touch $DIR/ready; while ! test -e $DIR/go; do sleep 0.05; done; echo x >>$DIR/runs`,
		&listBacklog{statuses: []session.Status{{Open: 2}}})
	finish := make(chan os.Signal, 1)
	tr.Finish = finish
	done := make(chan Report)
	go func() {
		report, err := Run(t.Context(), tr.Options)
		assert.Check(t, err)
		done <- report
	}()
	poll.WaitOn(t, poll.FileExists(filepath.Join(tr.dir(), "ready")))
	finish <- os.Interrupt
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if strings.Contains(tr.out.String(), "Stop requested: the loop ends after this run.") {
			return poll.Success()
		}
		return poll.Continue("no message")
	})
	assert.NilError(t, os.WriteFile(filepath.Join(tr.dir(), "go"), nil, 0o600))
	report := <-done
	assert.Equal(t, report.Stop, Stopped)
	assert.Equal(t, report.Stop.ExitCode(), 0)
	runs, err := os.ReadFile(filepath.Join(tr.dir(), "runs"))
	assert.NilError(t, err)
	assert.Equal(t, string(runs), "x\n")
	_, err = os.Stat(filepath.Join(tr.dir(), "disturbed"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.Assert(t, cmp.Contains(tr.out.String(), "Stopped. Exiting loop.\n"))
}

func TestFinishRequestEndsAWait(t *testing.T) {
	for name, program := range map[string]string{"before a run": `exit 1`, "for a rate limit": `echo 429 rate limited; exit 1`} {
		t.Run(name, func(t *testing.T) {
			tr := newFileLoop(t, program, newFileBacklog(t, "a"))
			finish := make(chan os.Signal, 1)
			tr.Finish = finish
			if name == "before a run" {
				finish <- os.Interrupt
			}
			done := make(chan Report)
			go func() {
				report, _ := Run(t.Context(), tr.Options)
				done <- report
			}()
			if name == "for a rate limit" {
				poll.WaitOn(t, func(poll.LogT) poll.Result {
					if strings.Contains(tr.out.String(), "Waiting 1m0s") {
						return poll.Success()
					}
					return poll.Continue("no wait")
				})
				finish <- os.Interrupt
			}
			assert.Equal(t, (<-done).Stop, Stopped)
		})
	}
}

func TestLogShowsTheCurrentTask(t *testing.T) {
	s := newFileBacklog(t, "a")
	s.held = []string{"a"}
	tr := newFileLoop(t, `while ! test -e $DIR/go; do sleep 0.05; done; touch $BACKLOG/a`, s)
	top := t.TempDir()
	log, err := runlog.Create(top, runlog.Loop{Mode: "build", Started: time.Now()})
	assert.NilError(t, err)
	tr.Log = log
	done := make(chan error)
	go func() {
		_, err := Run(t.Context(), tr.Options)
		done <- err
	}()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if now := runlog.Recent(top, 1, runlog.Any)[0].Now; now.N == 1 && len(now.Tasks) == 1 && now.Tasks[0] == "a" {
			return poll.Success()
		}
		return poll.Continue("no task")
	})
	assert.NilError(t, os.WriteFile(filepath.Join(tr.dir(), "go"), nil, 0o600))
	assert.NilError(t, <-done)
}
