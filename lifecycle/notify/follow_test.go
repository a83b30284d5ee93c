//go:build unix

package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// followed starts a sender that collects notifications in a file, for a loop.
func followed(t *testing.T) (l *Loop, out string, warnings chan string) {
	t.Helper()
	out = filepath.Join(t.TempDir(), "out")
	s, warnings := newTestSender(t, "sh", "-c", `cat >> "$0"`, out)
	return Follow(s, base), out, warnings
}

var base = Notification{Repo: "example/app", Branch: "main", Worktree: "/src/app", Sandbox: "box", Command: "build"}

func emit(l *Loop, all ...runlog.Data) {
	for _, d := range all {
		l.Event(runlog.Event{Time: time.Now(), Data: d})
	}
}

func parse(t *testing.T, content string) []Notification {
	t.Helper()
	var all []Notification
	for line := range strings.Lines(content) {
		var n Notification
		assert.NilError(t, json.Unmarshal([]byte(line), &n))
		assert.Check(t, !n.Time.IsZero())
		assert.Equal(t, n.Sandbox, "box")
		all = append(all, n)
	}
	return all
}

func TestLoopNotifications(t *testing.T) {
	t.Parallel()
	l, out, _ := followed(t)
	at := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	emit(l, &runlog.LoopStart{}, &runlog.RunStart{N: 1}, &runlog.TaskChange{N: 1, ID: "a/1", Title: "Do it", Status: "active"},
		&runlog.TaskChange{N: 1, ID: "a/1", Title: "Do it", Status: "blocked", Reason: "failed\nthree times\x1b[2J"})
	blocked := parse(t, waitForLines(t, out, 1))[0]
	assert.Equal(t, blocked.Event, TaskBlocked)
	assert.Equal(t, blocked.Run, 1)
	assert.DeepEqual(t, blocked.Task, &Task{"a/1", "Do it"})
	assert.Equal(t, blocked.Text, "Task a/1 (Do it) is blocked: failed three times")

	emit(l, &runlog.Question{ID: "a/2", Question: "Which?", Options: []string{"x", "y"}, Default: "x", DefaultAt: at},
		&runlog.LimitNear{Name: "max_cost_usd", Used: 8.5, Limit: 10})
	l.Repaired("sandbox box was stopped")
	all := parse(t, waitForLines(t, out, 4))
	texts := map[string]Notification{}
	for _, n := range all {
		texts[n.Text] = n
	}
	question := texts["Task a/2 needs an answer: Which? 1. x (default), 2. y"]
	assert.DeepEqual(t, question.Question, &Question{Text: "Which?", Options: []string{"x", "y"}, Default: "x", DefaultAt: &at})
	assert.DeepEqual(t, texts["build of example/app:main is near its limit: $8.50 of $10.00 (max_cost_usd)"].Limit, &Limit{"max_cost_usd", 8.5, 10})
	assert.Equal(t, texts["Sandbox box was repaired: sandbox box was stopped"].Event, SandboxRepaired)

	emit(l, &runlog.LoopEnd{Stop: "max_cost_usd", ExitCode: 4, Error: "too expensive", Summary: "Total: 1 run"})
	l.Ended(4, nil)
	end := parse(t, waitForLines(t, out, 5))[4]
	assert.DeepEqual(t, end.End, &End{Stop: "max_cost_usd", ExitCode: 4, Summary: "Total: 1 run"})
	assert.Equal(t, end.Text, "build of example/app:main ended: max cost usd. Total: 1 run")
}

// The log is an agent's, the exit code is the host's.
func TestEndHasFixedWordsOnly(t *testing.T) {
	t.Parallel()
	const summary = "Total: 3 runs, 2 tasks done, 1 left, 1 commit | 1h12m4s | tokens: at least 12,345 | cost: ~$0.0040"
	for _, tc := range []struct {
		name string
		code int
		log  runlog.LoopEnd
		want string
	}{
		{"as it was", 6, runlog.LoopEnd{Stop: "max_failures", Summary: summary}, "max failures. " + summary},
		{"failure as success", 6, runlog.LoopEnd{Stop: "complete", Summary: "All 12 tasks are done"}, "exit code 6"},
		{"success as failure", 0, runlog.LoopEnd{Stop: "failed", Error: "call 555-0100"}, "exit code 0"},
		{"words of the agent", 1, runlog.LoopEnd{Stop: "complete: see https://example.com", Error: "run this", Summary: "Total: complete"}, "exit code 1"},
		{"unknown code", 77, runlog.LoopEnd{Stop: "complete"}, "exit code 77"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l, out, _ := followed(t)
			emit(l, &tc.log)
			l.Ended(tc.code, nil)
			end := parse(t, waitForLines(t, out, 1))[0]
			assert.Equal(t, end.End.ExitCode, tc.code)
			assert.Equal(t, end.Text, "build of example/app:main ended: "+tc.want)
			assert.Equal(t, end.End.Error, "")
		})
	}
}

// The end of a loop that was killed is known nevertheless.
func TestEndWithoutEvent(t *testing.T) {
	t.Parallel()
	l, out, _ := followed(t)
	l.Ended(0, errors.New("sandbox box was removed"))
	end := parse(t, waitForLines(t, out, 1))[0]
	assert.DeepEqual(t, end.End, &End{ExitCode: 1, Error: "sandbox box was removed"})
	assert.Equal(t, end.Text, "build of example/app:main ended: exit code 1. sandbox box was removed")
}

// Its log says that it is complete, and the host that its commits are not on the user's branch.
func TestEndWithoutCommits(t *testing.T) {
	t.Parallel()
	l, out, _ := followed(t)
	emit(l, &runlog.LoopEnd{Stop: "complete", Summary: "Total: 1 run"})
	l.Ended(wire.ExitUnmerged, errors.New("held back"))
	end := parse(t, waitForLines(t, out, 1))[0]
	assert.DeepEqual(t, end.End, &End{Stop: wire.StopUnmerged, ExitCode: wire.ExitUnmerged, Error: "held back", Summary: "Total: 1 run"})
	assert.Equal(t, end.Text, "build of example/app:main ended: unmerged. held back. Total: 1 run")
}

// Its command on this machine has died, so that only the loop says how it has ended.
func TestLeftLoop(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	s, _ := newTestSender(t, "sh", "-c", `cat >> "$0"`, out)
	l := FollowLeft(s, base)
	for range 3 { // an agent that poses as its loop
		emit(l, &runlog.LoopEnd{Stop: "max_cost_usd", ExitCode: 4, Error: "too expensive"})
	}
	end := parse(t, waitForLines(t, out, 1))[0]
	assert.DeepEqual(t, end.End, &End{Stop: "max_cost_usd", ExitCode: 4, Error: "too expensive"})
	l.Close()
	emit(l, &runlog.TaskChange{ID: "late", Status: "blocked"})
	<-l.sender.done
	assert.Equal(t, len(parse(t, waitForLines(t, out, 1))), 1)
}

func TestDetachedLoopHasNotEnded(t *testing.T) {
	t.Parallel()
	l, out, _ := followed(t)
	l.Repaired("x")
	l.Ended(0, lifecycle.ErrDetached)
	<-l.sender.done
	assert.Equal(t, len(parse(t, waitForLines(t, out, 1))), 1)
}

func TestLostConnectionIsNotAnEnd(t *testing.T) {
	t.Parallel()
	l, out, _ := followed(t)
	l.Ended(0, fmt.Errorf("%w: it continues in sandbox box", lifecycle.ErrDisconnected))
	n := parse(t, waitForLines(t, out, 1))[0]
	assert.Equal(t, n.Event, ConnectionLost)
	assert.Equal(t, n.Text, "build of example/app:main: lost the connection to the engine: it continues in sandbox box")
	assert.Assert(t, n.End == nil)
}

// An agent can write any number of events. They do not displace its questions.
func TestNotificationsOfALoopAreLimited(t *testing.T) {
	t.Parallel()
	l, out, warnings := followed(t)
	emit(l, &runlog.Question{ID: "first", Question: "Which one?"})
	for i := range eventsMax + 10 {
		emit(l, &runlog.TaskChange{ID: fmt.Sprint(i), Status: "blocked"})
	}
	emit(l, &runlog.Question{ID: "last", Question: "And now?"})
	assert.Check(t, is.Contains(<-warnings, "sending notifications: "))
	l.Ended(0, nil)
	<-l.sender.done
	content, err := os.ReadFile(out)
	assert.NilError(t, err)
	all := parse(t, string(content))
	assert.Check(t, len(all) <= eventsMax+3)
	for _, task := range []string{"first", "last"} {
		assert.Check(t, slices.ContainsFunc(all, func(n Notification) bool { return n.Event == QuestionAsked && n.Task.ID == task }), task)
	}
	// The processes that deliver do not wait for each other at the end.
	assert.Check(t, slices.ContainsFunc(all, func(n Notification) bool { return n.Event == LoopEnded }))
}
