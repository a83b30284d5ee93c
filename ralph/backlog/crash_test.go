package backlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// claimAll claims until nothing is left, and prints each task.
func claimAll(ctx context.Context, s *Store) error {
	for {
		task, err := s.Claim(ctx, ClaimOptions{Agent: fmt.Sprint(os.Getpid()), Lease: time.Hour})
		if errors.Is(err, ErrNoneEligible) {
			return s.Close()
		}
		if err != nil {
			return err
		}
		fmt.Println(task.Slug)
	}
}

func TestManyProcessesClaimAThousandTasks(t *testing.T) {
	s := newStore(t)
	var plan strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&plan, "{\"id\":\"t/%03d\",\"t\":\"T\"}\n", i)
	}
	_, err := s.Sync(t.Context(), strings.NewReader(plan.String()))
	assert.NilError(t, err)
	claimed := map[string]int{}
	for _, said := range together(t, 8, "claim all", s.path) {
		for _, slug := range strings.Fields(said) {
			claimed[slug]++
		}
	}
	assert.Equal(t, len(claimed), 1000)
	for slug, n := range claimed {
		assert.Equal(t, n, 1, slug)
	}
}

// hammer does everything that writes, for a while, and meets no lock.
func hammer(ctx context.Context, s *Store) error {
	me := fmt.Sprint(os.Getpid())
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		task, err := s.Claim(ctx, ClaimOptions{Agent: me, Lease: time.Hour})
		if errors.Is(err, ErrNoneEligible) {
			continue
		}
		if err == nil {
			err = s.Renew(ctx, task.Slug, me, time.Hour)
		}
		if err == nil {
			err = s.Fail(ctx, task.Slug, "again")
		}
		if err != nil {
			return err
		}
	}
	return s.Close()
}

func TestManyProcessesMeetNoLock(t *testing.T) {
	s := newStore(t)
	for i := range 8 {
		add(t, s, fmt.Sprint("t", i))
	}
	for _, said := range together(t, 16, "hammer", s.path) {
		assert.Equal(t, said, "")
	}
	tasks, err := s.List(t.Context(), Filter{})
	assert.NilError(t, err)
	for _, task := range tasks {
		assert.Equal(t, task.Status, StatusOpen)
	}
}

// work claims and finishes tasks, adds new ones, and says what is certain: a
// line is printed when the database has taken the change.
func work(ctx context.Context, s *Store) error {
	for n := 0; ; n++ {
		slug := fmt.Sprintf("%d/%d", os.Getpid(), n)
		if err := s.Create(ctx, NewTask{Slug: slug, Title: "T"}); err != nil {
			return err
		}
		fmt.Println("open", slug)
		if _, err := s.Claim(ctx, ClaimOptions{Slug: slug, Agent: "me", Lease: time.Hour}); err != nil {
			return err
		}
		fmt.Println("active", slug)
		if err := s.Done(ctx, slug, `{"commit":"1"}`); err != nil {
			return err
		}
		fmt.Println("done", slug)
	}
}

// TestKilledAtAnyPoint kills working processes at random, 200 in all. What
// one of them was told to be written stays written.
func TestKilledAtAnyPoint(t *testing.T) {
	const rounds, processes = 50, 4
	path := dbPath(t)
	keep := openStore(t, path, testScope())
	rank := map[string]int{"": 0, StatusOpen: 1, StatusActive: 2, StatusDone: 3}
	for range rounds {
		out := make([]bytes.Buffer, processes)
		var kills []func()
		for i := range out {
			cmd := process(t, "work", path)
			cmd.Stdout = &out[i]
			assert.NilError(t, cmd.Start())
			delay := time.Duration(rand.IntN(60)) * time.Millisecond
			at := time.After(delay)
			kills = append(kills, func() {
				<-at
				assert.NilError(t, cmd.Process.Kill())
				_ = cmd.Wait()
			})
		}
		for _, kill := range kills {
			kill()
		}
		tasks, err := keep.List(t.Context(), Filter{All: true})
		assert.NilError(t, err)
		status := map[string]string{}
		for _, task := range tasks {
			status[task.Slug] = task.Status
		}
		for i := range out {
			for line := range strings.Lines(out[i].String()) {
				said, slug, whole := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
				if whole && strings.HasSuffix(line, "\n") {
					assert.Assert(t, rank[status[slug]] >= rank[said], "%s was %s and is %q", slug, said, status[slug])
				}
			}
		}
	}
	assert.Equal(t, query(t, path, "PRAGMA integrity_check"), "ok\n")
	tasks, err := keep.List(t.Context(), Filter{All: true})
	assert.NilError(t, err)
	assert.Assert(t, len(tasks) > rounds, "the processes have worked")
}
