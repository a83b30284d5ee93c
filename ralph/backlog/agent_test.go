package backlog

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func TestReopen(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	assert.NilError(t, s.Create(ctx, NewTask{Slug: "a", Title: "A"}))
	assert.ErrorIs(t, s.Reopen(ctx, "a", "x"), ErrNotDone)
	assert.ErrorIs(t, s.Reopen(ctx, "b", "x"), ErrNotFound)
	claim(t, s, "a", "3c9e")
	assert.NilError(t, s.Done(ctx, "a", `{"commit":"1"}`))
	assert.NilError(t, s.Reopen(ctx, "a", "make test failed"))
	task := get(t, s, "a")
	assert.Equal(t, task.Status, StatusOpen)
	assert.Equal(t, task.Result+task.Assignee+task.LeaseExpiresAt, "")
	assert.Equal(t, task.RetryCount, 1)
	assert.Equal(t, task.FailReason, "make test failed")
	assert.Equal(t, task.ClaimedBy, "3c9e")
}

func TestRenewHeldNeverShortensLeases(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	lease := map[string]string{}
	for slug, d := range map[string]time.Duration{"long": time.Hour, "short": time.Second, "other": time.Second} {
		assert.NilError(t, s.Create(ctx, NewTask{Slug: slug, Title: slug}))
		agent := "3c9e"
		if slug == "other" {
			agent = "beef"
		}
		task, err := s.Claim(ctx, ClaimOptions{Slug: slug, Agent: agent, Lease: d})
		assert.NilError(t, err)
		lease[slug] = task.LeaseExpiresAt
	}
	n, err := s.RenewHeld(ctx, "3c9e", 10*time.Minute)
	assert.NilError(t, err)
	assert.Equal(t, n, 2)
	for slug, grows := range map[string]bool{"long": false, "short": true, "other": false} {
		assert.Equal(t, get(t, s, slug).LeaseExpiresAt > lease[slug], grows, slug)
	}
}

func TestReleaseDead(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	ids := map[string]string{} // by task
	for task, a := range map[string]Agent{
		"alive": {Loop: true, Session: "s1"}, "dead": {Loop: true, Session: "s2"}, "by-hand": {PID: 7}, "plain": {Loop: true, PID: 8},
	} {
		id, err := s.RegisterAgent(ctx, a)
		assert.NilError(t, err)
		ids[task] = id
		add(t, s, task)
		claim(t, s, task, id)
	}
	asked := map[Agent]bool{}
	dead := func(a Agent) bool {
		asked[Agent{PID: a.PID, Loop: a.Loop, Session: a.Session}] = true
		return a.Session == "s2"
	}

	released, err := s.ReleaseDead(ctx, dead)
	assert.NilError(t, err)
	assert.DeepEqual(t, released, []Released{{ids["dead"], "dead"}})
	assert.DeepEqual(t, asked, map[Agent]bool{
		{Loop: true, Session: "s1"}: true, {Loop: true, Session: "s2"}: true, {PID: 7}: true, {Loop: true, PID: 8}: true,
	})
	task := get(t, s, "dead")
	assert.Equal(t, task.Status, StatusOpen)
	assert.Equal(t, task.FailReason, "agent process died")
	assert.Equal(t, task.RetryCount, 1)
	active, err := s.List(ctx, Filter{Statuses: []string{StatusActive}})
	assert.NilError(t, err)
	assert.Equal(t, len(active), 3)
	agents, err := s.Agents(ctx)
	assert.NilError(t, err)
	assert.Equal(t, len(agents), 3)

	released, err = s.ReleaseDead(ctx, dead)
	assert.NilError(t, err)
	assert.Equal(t, len(released), 0)
}

func TestOvertaken(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	check := func(agent string, want ...string) {
		t.Helper()
		lost, err := s.Overtaken(ctx, agent)
		assert.NilError(t, err)
		assert.DeepEqual(t, append([]string{}, lost...), append([]string{}, want...))
	}
	add(t, s, "a", "b", "c")
	claim(t, s, "a", "one")
	claim(t, s, "b", "one")
	check("one")
	query(t, s.path, expireAll)
	claim(t, s, "a", "two")
	claim(t, s, "b", "one")
	check("one", "a")
	check("two")

	// The other agent is done with it.
	assert.NilError(t, s.As("two").Fail(ctx, "a", "no"))
	check("one", "a")
	claim(t, s, "a", "three")
	check("one", "a")
	assert.NilError(t, s.As("three").Fail(ctx, "a", "no"))
	assert.NilError(t, s.Forgive(ctx, "a"))
	claim(t, s, "a", "one")
	check("one") // it holds the task again

	query(t, s.path, expireAll)
	claim(t, s, "b", "two")
	check("one", "b")
	assert.NilError(t, s.BeginRun(ctx, "two"))
	check("one", "b")
	assert.NilError(t, s.BeginRun(ctx, "one"))
	check("one")
}

// A user can end a claim, too.
func TestOvertakenAfterAUserEndedTheClaim(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	assert.NilError(t, s.Create(ctx, NewTask{Slug: "a", Title: "A"}))
	open := StatusOpen
	for _, agent := range []string{"aaaa", "bbbb"} {
		assert.NilError(t, s.Update(ctx, "a", Changes{Status: &open}))
		_, err := s.Claim(ctx, ClaimOptions{Slug: "a", Agent: agent, Lease: DefaultLease})
		assert.NilError(t, err)
	}
	lost, err := s.Overtaken(ctx, "aaaa")
	assert.NilError(t, err)
	assert.DeepEqual(t, lost, []string{"a"})
}
