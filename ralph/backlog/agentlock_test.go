package backlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"gotest.tools/v3/assert"
)

func TestReopen(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	assert.NilError(t, s.Create(ctx, NewTask{Slug: "a", Title: "A"}))
	assert.ErrorIs(t, s.Reopen(ctx, "a", "x"), ErrNotDone)
	assert.ErrorIs(t, s.Reopen(ctx, "b", "x"), ErrNotFound)
	_, err := s.Claim(ctx, ClaimOptions{Agent: "3c9e", Lease: time.Minute})
	assert.NilError(t, err)
	assert.NilError(t, s.Done(ctx, "a", `{"commit":"1"}`))
	assert.NilError(t, s.Reopen(ctx, "a", "make test failed"))
	task, err := s.Show(ctx, "a")
	assert.NilError(t, err)
	assert.Equal(t, task.Status, StatusOpen)
	assert.Equal(t, task.Result+task.Assignee+task.LeaseExpiresAt, "")
	assert.Equal(t, task.RetryCount, 1)
	assert.Equal(t, task.FailReason, "make test failed")
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
		task, err := s.Show(ctx, slug)
		assert.NilError(t, err)
		assert.Equal(t, task.LeaseExpiresAt > lease[slug], grows, slug)
	}
}

func TestReleaseDead(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	register := func(host, slug string) string {
		id, err := s.RegisterAgent(ctx, 1, host)
		assert.NilError(t, err)
		assert.NilError(t, s.Create(ctx, NewTask{Slug: slug, Title: slug}))
		_, err = s.Claim(ctx, ClaimOptions{Slug: slug, Agent: id, Lease: time.Hour})
		assert.NilError(t, err)
		return id
	}
	alive := register("here", "alive")
	hold, err := s.LockAgent(alive)
	assert.NilError(t, err)
	register("here", "never-held")
	dir := filepath.Join(filepath.Dir(s.path), "agents")
	dead, elsewhere := register("here", "dead"), register("there", "elsewhere")
	for _, id := range []string{dead, elsewhere} {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, id+".lock"), nil, 0o644))
	}

	released, err := s.ReleaseDead(ctx, "here")
	assert.NilError(t, err)
	assert.DeepEqual(t, released, []Released{{dead, "dead"}})
	task, err := s.Show(ctx, "dead")
	assert.NilError(t, err)
	assert.Equal(t, task.Status, StatusOpen)
	assert.Equal(t, task.FailReason, "agent process died")
	assert.Equal(t, task.RetryCount, 1)
	active, err := s.List(ctx, Filter{Statuses: []string{StatusActive}})
	assert.NilError(t, err)
	assert.Equal(t, len(active), 3)
	agents, err := s.Agents(ctx)
	assert.NilError(t, err)
	assert.Equal(t, len(agents), 3)

	released, err = s.ReleaseDead(ctx, "here")
	assert.NilError(t, err)
	assert.Equal(t, len(released), 0)
	assert.NilError(t, hold.Release())
	entries, err := os.ReadDir(dir)
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 1, "want the lock of the other host: %v", entries)
}

func TestHoldAgent(t *testing.T) {
	s := newStore(t)
	hold, err := s.LockAgent("3c9e")
	assert.NilError(t, err)
	held, err := flock.New(filepath.Join(filepath.Dir(s.path), "agents", "3c9e.lock")).TryLock()
	assert.NilError(t, err)
	assert.Assert(t, !held)
	assert.Assert(t, s.Alive("3c9e"))
	assert.NilError(t, hold.Release())
	assert.Assert(t, !s.Alive("3c9e"))
	_, err = s.LockAgent("../x")
	assert.ErrorContains(t, err, "invalid agent ID")
}

func TestLocksStayInTheDirectory(t *testing.T) {
	outside := t.TempDir()
	for _, tc := range []struct {
		name  string
		spoil func(dir string) error
		held  bool // a lock replaces it
	}{
		{"folder is a link", func(dir string) error { return os.Symlink(outside, dir) }, false},
		{"lock is a link", func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o755), os.Symlink(filepath.Join(outside, "x"), filepath.Join(dir, "3c9e.lock")))
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore(t)
			query(t, s.path, "INSERT INTO agents (id, hostname, scope_repo, scope_branch) VALUES ('3c9e', 'here', 'acme/shop', 'main')")
			assert.NilError(t, tc.spoil(filepath.Join(filepath.Dir(s.path), lockDir)))
			_, err := s.ReleaseDead(t.Context(), "here")
			assert.ErrorContains(t, err, "path escapes")
			assert.Assert(t, !s.Alive("3c9e"))
			_, err = s.LockAgent("3c9e")
			assert.Equal(t, err == nil, tc.held, "%v", err)
			assert.Equal(t, s.Alive("3c9e"), tc.held)
			entries, err := os.ReadDir(outside)
			assert.NilError(t, err)
			assert.Equal(t, len(entries), 0)
		})
	}
}

// liveOn registers an agent, claims a task, and releases dead agents, of which
// there are none, as a loop does.
func liveOn(ctx context.Context, s *Store) error {
	id, err := s.RegisterAgent(ctx, os.Getpid(), "here")
	if err != nil {
		return err
	}
	if _, err := s.LockAgent(id); err != nil {
		return err
	}
	task, err := s.Claim(ctx, ClaimOptions{Agent: id, Lease: time.Hour})
	if err != nil {
		return err
	}
	for range 20 {
		released, err := s.ReleaseDead(ctx, "here")
		if err != nil || len(released) > 0 {
			return fmt.Errorf("released %v: %w", released, err)
		}
	}
	fmt.Println(task.Slug)
	_, err = os.Stdin.Read(make([]byte, 1)) // until it is killed
	return err
}

func TestReleaseDeadReleasesOnlyKilledLoops(t *testing.T) {
	const n = 8
	s := newStore(t)
	var kills []func()
	var want []string
	for i := range n {
		want = append(want, fmt.Sprint("t", i))
		add(t, s, want[i])
	}
	starts := make([]func() func(), n)
	for i := range n {
		starts[i] = startLater(t, "live on", s.path)
	}
	for _, started := range starts {
		kills = append(kills, started())
	}
	released, err := s.ReleaseDead(t.Context(), "here")
	assert.NilError(t, err)
	assert.Equal(t, len(released), 0)
	for _, kill := range kills {
		kill()
	}
	var got []string
	released, err = s.ReleaseDead(t.Context(), "here")
	assert.NilError(t, err)
	for _, r := range released {
		got = append(got, r.Slug)
	}
	slices.Sort(got)
	assert.DeepEqual(t, got, want)
	agents, err := s.Agents(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, len(agents), 0)
}

// A killed loop could not undo the deletions of its agent.
func TestReleaseDeadUndoesDeletions(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	id, err := s.RegisterAgent(ctx, 1, "here")
	assert.NilError(t, err)
	add(t, s, "done", "open", "mine")
	claim(t, s, "done", "3c9e")
	assert.NilError(t, s.Done(ctx, "done", `{"commit":"1"}`))
	claim(t, s, "mine", id)
	add(t, s, "by-a-person")
	assert.NilError(t, s.Delete(ctx, "by-a-person"))

	agent := *s
	agent.As(id)
	_, err = agent.DeleteMatching(ctx, DeleteFilter{All: true})
	assert.NilError(t, err)
	want := map[string]string{"done": StatusDone, "open": StatusOpen, "mine": StatusOpen, "by-a-person": StatusDeleted}
	during, err := s.Copy(ctx) // as the host does during a run
	assert.NilError(t, err)
	during.Undelete()
	assert.Equal(t, len(during.Tasks), len(want))
	for _, task := range during.Tasks {
		assert.Equal(t, task.str("status"), want[task.str("slug")], task.str("slug"))
	}

	dir := filepath.Join(filepath.Dir(s.path), "agents")
	assert.NilError(t, os.MkdirAll(dir, 0o755))
	assert.NilError(t, os.WriteFile(filepath.Join(dir, id+".lock"), nil, 0o644))
	_, err = s.ReleaseDead(ctx, "here")
	assert.NilError(t, err)
	for slug, status := range want {
		task, err := s.Show(ctx, slug)
		assert.NilError(t, err)
		assert.Equal(t, task.Status, status, slug)
	}
}
