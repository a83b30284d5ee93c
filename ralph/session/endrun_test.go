package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// status returns the status of a task.
func status(t *testing.T, s *backlog.Store, slug string) string {
	t.Helper()
	task, err := s.Show(t.Context(), slug)
	assert.NilError(t, err)
	return task.Status
}

func TestEndRunMakesFinishedTasksDone(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	add(t, s, "a", "b")
	var taken string
	var receipts []backlog.Receipt
	c := connect(t, DoorOptions{
		Store: s, Session: "s1", Command: "build", Alive: func(context.Context, string) bool { return true }, Logs: t.TempDir(), Image: "sha256:1",
		Take: func(_ context.Context, commit string) (Verdict, error) {
			taken = commit
			return Verdict{Finish: "merge first", Tree: "7ree"}, nil
		},
		Head:     func(context.Context) (string, error) { return "ba5e", nil },
		Receipts: func(_ context.Context, all []backlog.Receipt) { receipts = all },
	}, true)
	r, err := c.Register(ctx)
	assert.NilError(t, err)
	accepted, err := c.Accepted(ctx)
	assert.NilError(t, err)
	assert.Equal(t, accepted, "ba5e")
	var opened logOpened
	assert.NilError(t, c.send(ctx, loopPath+openLogName, "1", LogRequest{Loop: runlog.Loop{Mode: "build", Started: noon}}, &opened))
	for _, slug := range []string{"a", "b"} {
		assert.Equal(t, runTask(t, c, "", "claim", slug).Code, 0)
		assert.Equal(t, string(runTask(t, c, "", "done", slug, "--result", `{"commit":"c0ffee"}`).Stdout), "done "+slug+"\n")
		assert.Equal(t, status(t, s, slug), backlog.StatusFinished)
	}

	cost := 0.5
	run := runlog.Iteration{
		N: 3, Seconds: 60, Model: "m", Tokens: &event.Tokens{Input: 1}, CostUSD: &cost, CostEstimated: true,
		Checks: []runlog.Check{{Command: "make test", Seconds: 2}}, Refused: make([]denylog.Refusal, maxBlocked+1),
	}
	verdict, err := c.EndRun(ctx, EndOfRun{Agent: r.ID, Commit: "c0ffee", Tasks: []string{"a", "none"}, Run: run})
	assert.NilError(t, err)
	assert.DeepEqual(t, verdict, Verdict{Finish: "merge first"})
	assert.Equal(t, taken, "c0ffee")
	assert.Equal(t, status(t, s, "b"), backlog.StatusFinished)
	task, err := s.Show(ctx, "a")
	assert.NilError(t, err)
	assert.Equal(t, task.Status, backlog.StatusDone)
	want := backlog.Receipt{
		Task: "a", Attempt: 1, Time: task.Receipt.Time, Commit: "c0ffee", Tree: "7ree", Image: "sha256:1", Loop: opened.Loop.ID, Run: 3,
		Checks: run.Checks, Model: "m", Tokens: run.Tokens, CostUSD: &cost, CostEstimated: true, Blocked: run.Refused[:maxBlocked], Seconds: 60,
	}
	assert.DeepEqual(t, *task.Receipt, want)
	assert.DeepEqual(t, receipts, []backlog.Receipt{want})
}

func TestRefusedRunLeavesTasksFinished(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	c := connect(t, DoorOptions{
		Store: s, Session: "s1", Take: func(context.Context, string) (Verdict, error) { return Verdict{Refused: "a submodule"}, nil },
	}, true)
	r, err := c.Register(t.Context())
	assert.NilError(t, err)
	claim(t, s, "a", r.ID)
	assert.NilError(t, s.Finish(t.Context(), "a", ""))
	verdict, err := c.EndRun(t.Context(), EndOfRun{Agent: r.ID, Commit: "c0ffee", Tasks: []string{"a"}})
	assert.NilError(t, err)
	assert.DeepEqual(t, verdict, Verdict{Refused: "a submodule"})
	assert.Equal(t, status(t, s, "a"), backlog.StatusFinished)
	assert.NilError(t, c.Reopen(t.Context(), "a", verdict.Refused))
	assert.Equal(t, status(t, s, "a"), backlog.StatusOpen)
}

// Without a clone, the user's repository has all commits already.
func TestEndRunWithoutCommitsToTake(t *testing.T) {
	for name, commit := range map[string]string{"live": "c0ffee", "no commit": ""} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			add(t, s, "a")
			claim(t, s, "a", "me")
			assert.NilError(t, s.Finish(t.Context(), "a", ""))
			l := &Local{Store: s}
			if commit == "" {
				l.Take = func(context.Context, string) (Verdict, error) { return Verdict{}, errors.New("there is none") }
				l.Head = func(context.Context) (string, error) { return "", nil }
			}
			verdict, err := l.EndRun(t.Context(), EndOfRun{Agent: "me", Commit: commit, Tasks: []string{"a"}})
			assert.NilError(t, err)
			assert.DeepEqual(t, verdict, Verdict{})
			assert.Equal(t, status(t, s, "a"), backlog.StatusDone)
		})
	}
}

// A loop that cannot say where its branch is has nothing that could be taken.
func TestEndRunWithAnUnknownCommit(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	claim(t, s, "a", "me")
	assert.NilError(t, s.Finish(t.Context(), "a", ""))
	l := &Local{Store: s}
	l.Take = func(_ context.Context, commit string) (Verdict, error) {
		return Verdict{Refused: "no commit: " + commit}, nil
	}
	l.Head = func(context.Context) (string, error) { return "c0ffee", nil }
	verdict, err := l.EndRun(t.Context(), EndOfRun{Agent: "me", Tasks: []string{"a"}})
	assert.NilError(t, err)
	assert.Equal(t, verdict.Refused, "no commit: ")
	assert.Equal(t, status(t, s, "a"), backlog.StatusFinished)
}

func TestFailuresOfTheHostAreNotTheRuns(t *testing.T) {
	full := hint.Wrap(fmt.Errorf("fetching commits: %w", syscall.ENOSPC), "free some disk space")
	for name, take := range map[string]error{"disk": full, "database": hint.Wrap(backlog.ErrLocked, "wait")} {
		c := connect(t, DoorOptions{
			Store: newStore(t), Take: func(context.Context, string) (Verdict, error) { return Verdict{}, take },
		}, true)
		_, err := c.EndRun(t.Context(), EndOfRun{Commit: "c0ffee"})
		assert.ErrorIs(t, err, ErrEnvironment, name)
		assert.Error(t, err, take.Error())
		assert.DeepEqual(t, hint.Of(err), hint.Of(take))
	}
	c := connect(t, DoorOptions{Store: newStore(t)}, true)
	_, err := call[Verdict](t.Context(), c, "end-run", loopRequest{})
	assert.Error(t, err, "the request has no run")
	assert.Assert(t, !errors.Is(err, ErrEnvironment))
	unknown := func(context.Context) (string, error) { return "", full }
	_, err = (&Local{Store: newStore(t), Head: unknown}).Accepted(t.Context())
	assert.ErrorIs(t, err, syscall.ENOSPC)
}

// Only the loop ends a run, and its agent finishes only what it holds.
func TestAgentOfALoopCannotAccept(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	add(t, s, "mine", "theirs", "open")
	options := DoorOptions{Store: s, Session: "s1", Command: "build", Alive: func(context.Context, string) bool { return true }}
	loop, agent := connect(t, options, true), connect(t, options, false)
	r, err := loop.Register(ctx)
	assert.NilError(t, err)
	other, err := s.RegisterAgent(ctx, backlog.Agent{Loop: true, Session: "s2"})
	assert.NilError(t, err)
	claim(t, s, "mine", r.ID)
	claim(t, s, "theirs", other)

	for slug, want := range map[string]string{
		"theirs": "Error: task 'theirs' is held by agent '" + other + "'\n", "open": "Error: task 'open' is not active (status: open)\n",
	} {
		out := runTask(t, agent, other, "done", slug)
		assert.Equal(t, string(out.Stderr)+string(out.Stdout), want)
	}
	assert.Equal(t, runTask(t, agent, r.ID, "done", "mine").Code, 0)
	for _, line := range []string{
		"done mine", "update mine --status done", "update mine --title T", "renew mine", "ask mine Why?", "claim mine", "reopen mine",
	} {
		assert.Assert(t, runTask(t, agent, r.ID, strings.Fields(line)...).Code != 0, line)
	}
	_, err = agent.EndRun(ctx, EndOfRun{Agent: r.ID, Tasks: []string{"mine"}})
	assert.Error(t, err, "only the loop of the session may do this")
	assert.Equal(t, status(t, s, "mine"), backlog.StatusFinished)
	_, err = loop.EndRun(ctx, EndOfRun{Agent: r.ID, Tasks: []string{"mine", "theirs", "open"}})
	assert.NilError(t, err)
	for slug, want := range map[string]string{"mine": backlog.StatusDone, "theirs": backlog.StatusActive, "open": backlog.StatusOpen} {
		assert.Equal(t, status(t, s, slug), want)
	}
	task, err := s.Show(ctx, "theirs")
	assert.NilError(t, err)
	assert.Assert(t, task.Receipt == nil)
}

func TestAgentWithoutALoopIsDoneAtOnce(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	_, err := s.RegisterAgent(t.Context(), backlog.Agent{Loop: true, Session: "s2"})
	assert.NilError(t, err)
	c := connect(t, DoorOptions{Store: s, Session: "s1", Command: "shell"}, false)
	assert.Equal(t, runTask(t, c, "me", "claim", "a").Code, 0)
	assert.Equal(t, runTask(t, c, "me", "done", "a").Code, 0)
	assert.Equal(t, status(t, s, "a"), backlog.StatusDone)
}

// A task that the agent has finished can still fail.
func TestAgentFailsAFinishedTask(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	c := connect(t, DoorOptions{Store: s, Session: "s1", Command: "build"}, true)
	r, err := c.Register(t.Context())
	assert.NilError(t, err)
	claim(t, s, "a", r.ID)
	assert.Equal(t, runTask(t, c, "", "done", "a").Code, 0)
	assert.Equal(t, runTask(t, c, "", "fail", "a", "--reason", "no").Code, 0)
	assert.Equal(t, status(t, s, "a"), backlog.StatusOpen)
}

// The host died after it had taken the commits.
func TestRepeatedEndOfRun(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	takes := 0
	d := NewDoor(DoorOptions{Store: s, Command: "build", Token: "secret", Take: func(context.Context, string) (Verdict, error) {
		takes++
		return Verdict{}, nil
	}})
	claim(t, s, "a", "me")
	assert.NilError(t, s.Finish(t.Context(), "a", ""))
	body := `{"run":{"agent":"me","commit":"c0ffee","tasks":["a"],"run":{"n":1}}}`
	for range 2 {
		code, answer := post(d, "POST", "/v1/loop/end-run", body, requestHeader, "1")
		assert.Equal(t, code, http.StatusOK)
		assert.Equal(t, answer, "{}")
	}
	assert.Equal(t, takes, 1)
	_, answer := post(NewDoor(d.options), "POST", "/v1/loop/end-run", body, requestHeader, "1")
	assert.Equal(t, answer, "{}")
	assert.Equal(t, takes, 2)
	assert.Equal(t, status(t, s, "a"), backlog.StatusDone)
}
