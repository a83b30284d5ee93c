package session

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// deadProcess returns the ID of a process that has ended.
func deadProcess(t *testing.T) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "true")
	assert.NilError(t, cmd.Run())
	return cmd.Process.Pid
}

func TestRegisterReleasesTasksOfDeadAgents(t *testing.T) {
	t.Setenv("HOSTNAME", "here")
	sessions := func(_ context.Context, session string) bool { return session == "alive" }
	for _, tc := range []struct {
		name        string
		agent       backlog.Agent
		alive       func(context.Context, string) bool
		dead, other bool
	}{
		{name: "process", agent: backlog.Agent{Loop: true, Hostname: "here", PID: os.Getppid()}, other: true},
		{name: "ended process", agent: backlog.Agent{Loop: true, Hostname: "here", PID: deadProcess(t)}, dead: true},
		{name: "another with this process ID", agent: backlog.Agent{Loop: true, Hostname: "here", PID: os.Getpid()}, dead: true},
		{name: "without a process ID", agent: backlog.Agent{Loop: true, Hostname: "here"}, dead: true},
		{name: "another machine", agent: backlog.Agent{Loop: true, Hostname: "there", PID: deadProcess(t)}},
		{name: "by hand", agent: backlog.Agent{Hostname: "here", PID: deadProcess(t)}},
		{name: "session", agent: backlog.Agent{Loop: true, Session: "alive"}, alive: sessions, other: true},
		{name: "ended session", agent: backlog.Agent{Loop: true, Session: "ended"}, alive: sessions, dead: true},
		{name: "this session", agent: backlog.Agent{Loop: true, Session: "mine"}, alive: sessions, dead: true},
		{name: "by hand on the host", agent: backlog.Agent{PID: deadProcess(t)}, alive: sessions},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore(t)
			add(t, s, "a")
			id, err := s.RegisterAgent(t.Context(), tc.agent)
			assert.NilError(t, err)
			claim(t, s, "a", id)
			session := ""
			if tc.alive != nil {
				session = "mine"
			}
			r, err := (&Local{Store: s, Session: session, Alive: tc.alive}).Register(t.Context())
			assert.NilError(t, err)
			assert.Assert(t, r.ID != id)
			var dead []Released
			if tc.dead {
				dead = []Released{{Agent: id, Slug: "a"}}
			}
			assert.DeepEqual(t, r.Dead, dead)
			assert.Equal(t, len(r.Others) == 1 && r.Others[0].ID == id, tc.other)
			agents, err := s.Agents(t.Context())
			assert.NilError(t, err)
			assert.Equal(t, agents[0].ID, r.ID)
			assert.Equal(t, agents[0].Session, session)
		})
	}
}

func TestTasks(t *testing.T) {
	s := newStore(t)
	l := &Local{Store: s, Session: "mine", Alive: func(context.Context, string) bool { return true }}
	r, err := l.Register(t.Context())
	assert.NilError(t, err)
	add(t, s, "held", "expired", "waits", "asked")
	claim(t, s, "held", r.ID)
	claimBefore(t, s, "expired", "gone")
	assert.NilError(t, s.Block(t.Context(), "waits", "held"))
	claim(t, s, "asked", r.ID)
	assert.NilError(t, s.Ask(t.Context(), "asked", r.ID, backlog.NewQuestion{Text: "Which?", Options: []string{"x"}}))

	tasks, err := l.Tasks(t.Context())
	assert.NilError(t, err)
	for slug, want := range map[string]Task{
		"held":    {Status: "active", Assignee: r.ID, ClaimedBy: r.ID, Foreign: true, Attempt: 1, Leased: true},
		"expired": {Status: "active", Assignee: "gone", ClaimedBy: "gone", Attempt: 1},
		"waits":   {Status: "open"},
		"asked":   {Status: "question", ClaimedBy: r.ID, Attempt: 1, Question: &Question{Text: "Which?", Options: []string{"x"}}},
	} {
		got := tasks[slug]
		assert.Assert(t, got.Content != "")
		want.Title, want.Content = "Title of "+slug, got.Content
		assert.DeepEqual(t, got, want)
	}
	status, err := l.Status(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, status, Status{Active: 2, Waiting: 1, Question: 1})
	held, err := l.Held(t.Context(), r.ID)
	assert.NilError(t, err)
	assert.DeepEqual(t, held, []string{"held"})
}

// The tasks of an agent that creates many fit into an answer.
func TestTasksAreShort(t *testing.T) {
	s := newStore(t)
	text := strings.Repeat("x", 100<<10)
	assert.NilError(t, s.Create(t.Context(), backlog.NewTask{Slug: "a", Title: text, Description: text}))
	claim(t, s, "a", "one")
	assert.NilError(t, s.Done(t.Context(), "a", `{"commit":"c0ffee","notes":"`+text+`"}`))
	tasks, err := (&Local{Store: s}).Tasks(t.Context())
	assert.NilError(t, err)
	answer, err := json.Marshal(tasks)
	assert.NilError(t, err)
	assert.Assert(t, len(answer) < 1000, "%d", len(answer))
	assert.Equal(t, tasks["a"].Commit, "c0ffee")
}

func TestOvertakenLoopReleasesNothing(t *testing.T) {
	s := newStore(t)
	l := &Local{Store: s}
	add(t, s, "a")
	claimBefore(t, s, "a", "me")
	claim(t, s, "a", "you")
	assert.ErrorIs(t, l.Release(t.Context(), "me", "a", "no"), backlog.ErrLost)
	lost, err := l.Overtaken(t.Context(), "me")
	assert.NilError(t, err)
	assert.DeepEqual(t, lost, []string{"a"})
	assert.NilError(t, l.BeginRun(t.Context(), "me"))
	lost, err = l.Overtaken(t.Context(), "me")
	assert.NilError(t, err)
	assert.Equal(t, len(lost), 0)
}
