package backlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// claimAll claims all tasks and prints them.
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

func TestConcurrentProcessesClaimEachTaskOnce(t *testing.T) {
	s := newStore(t)
	var plan strings.Builder
	for i := range 300 {
		fmt.Fprintf(&plan, "{\"id\":\"t/%03d\",\"t\":\"T\"}\n", i)
	}
	_, err := s.Sync(t.Context(), strings.NewReader(plan.String()))
	assert.NilError(t, err)
	claimed := map[string]int{}
	for _, printed := range together(t, 8, "claim all", s.path) {
		for _, slug := range strings.Fields(printed) {
			claimed[slug]++
		}
	}
	assert.Equal(t, len(claimed), 300)
	for slug, n := range claimed {
		assert.Equal(t, n, 1, slug)
	}
}

// hammer writes for a while and fails on the first locked database.
func hammer(ctx context.Context, s *Store, duration time.Duration) error {
	me := fmt.Sprint(os.Getpid())
	for end := time.Now().Add(duration); time.Now().Before(end); {
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
		if err == nil {
			err = s.Forgive(ctx, task.Slug)
		}
		if err != nil {
			return err
		}
	}
	return s.Close()
}

func TestConcurrentWritersDoNotStarve(t *testing.T) {
	s := newStore(t)
	for i := range 8 {
		add(t, s, fmt.Sprint("t", i))
	}
	role := "hammer"
	if testing.Short() {
		role = "hammer briefly"
	}
	for _, printed := range together(t, 16, role, s.path) {
		assert.Equal(t, printed, "")
	}
	tasks, err := s.List(t.Context(), Filter{})
	assert.NilError(t, err)
	for _, task := range tasks {
		assert.Equal(t, task.Status, StatusOpen)
	}
}

// planOf is a plan of 20 tasks, all with the same title.
func planOf(spec, title string) string {
	var b strings.Builder
	for i := range 20 {
		_, _ = fmt.Fprintf(&b, "{\"id\":\"%s/plan/%d\",\"t\":%q,\"spec\":%q}\n", spec, i, title, spec)
	}
	return b.String()
}

// work syncs, creates, claims and finishes tasks, and prints a line for each
// committed change.
func work(ctx context.Context, s *Store) error {
	me := fmt.Sprint(os.Getpid())
	for n := 0; ; n++ {
		slug := fmt.Sprintf("%s/%d", me, n)
		if _, err := s.Sync(ctx, strings.NewReader(planOf(me, fmt.Sprint(n)))); err != nil {
			return err
		}
		fmt.Println("plan", me, n)
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

// ready is printed to stderr before a process opens the backlog.
const ready = "ready"

// output is the output of a process; reached is closed after a number of lines.
type output struct {
	all     bytes.Buffer
	lines   int // to wait for
	reached chan struct{}
}

func newOutput(lines int) *output {
	s := &output{lines: lines, reached: make(chan struct{})}
	if lines == 0 {
		close(s.reached)
	}
	return s
}

func (s *output) Write(p []byte) (int, error) {
	was := s.lines
	s.lines -= bytes.Count(p, []byte("\n"))
	if was > 0 && s.lines <= 0 {
		close(s.reached)
	}
	return s.all.Write(p)
}

// killWorkers runs processes, kills each up to 120 ms after its start, and returns
// their output. The first is not killed before it has printed the given number of
// lines.
func killWorkers(t *testing.T, path string, n, lines int) string {
	t.Helper()
	printed, started, cmds := make([]*output, n), make([]io.Reader, n), make([]*exec.Cmd, n)
	for i := range cmds {
		printed[i] = newOutput(lines)
		lines = 0
		cmds[i] = process(t, "work", path)
		cmds[i].Stdout = printed[i]
		var err error
		started[i], err = cmds[i].StderrPipe()
		assert.NilError(t, err)
		assert.NilError(t, cmds[i].Start())
	}
	ends := make([]<-chan time.Time, n)
	for i := range cmds {
		_, err := io.ReadFull(started[i], make([]byte, len(ready)))
		assert.NilError(t, err)
		ends[i] = time.After(time.Duration(rand.IntN(120)) * time.Millisecond)
	}
	var all strings.Builder
	for i, cmd := range cmds {
		<-printed[i].reached
		<-ends[i]
		assert.NilError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		_, _ = printed[i].all.WriteTo(&all)
	}
	return all.String()
}

// verify checks a backlog against the output of killed processes.
func verify(ctx context.Context, s *Store, printed string) error {
	var integrity string
	if err := s.db.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&integrity); err != nil || integrity != "ok" {
		return fmt.Errorf("integrity check: %s: %w", integrity, err)
	}
	tasks, err := s.List(ctx, Filter{All: true})
	if err != nil {
		return err
	}
	status := map[string]string{}
	titles, planned := map[string]string{}, map[string]int{}
	for _, task := range tasks {
		status[task.Slug] = task.Status
		if task.SpecRef == "" {
			continue
		}
		planned[task.SpecRef]++
		if title, known := titles[task.SpecRef]; known && title != task.Title {
			return fmt.Errorf("half of a plan is from %s, half from %s", title, task.Title)
		}
		titles[task.SpecRef] = task.Title
	}
	for spec, n := range planned {
		if n != 20 {
			return fmt.Errorf("plan %s has %d tasks", spec, n)
		}
	}
	rank := map[string]int{"": 0, StatusOpen: 1, StatusActive: 2, StatusDone: 3}
	for line := range strings.Lines(printed) {
		words := strings.Fields(line)
		if words[0] == "plan" {
			is, _ := strconv.Atoi(titles[words[1]])
			was, _ := strconv.Atoi(words[2])
			if planned[words[1]] == 0 || is < was {
				return fmt.Errorf("plan %d was written, and %d is there", was, is)
			}
			continue
		}
		if rank[status[words[1]]] < rank[words[0]] {
			return fmt.Errorf("task %s was %s and is %q", words[1], words[0], status[words[1]])
		}
	}
	return nil
}

// Committed changes survive, and none is half written.
func TestDatabaseSurvivesKilledProcesses(t *testing.T) {
	const processes = 4
	rounds := 30
	if testing.Short() {
		rounds = 10
	}
	var path string
	worked := 0
	for round := range rounds {
		if round%5 == 0 {
			path = dbPath(t) // some are killed while they create the database
		}
		printed := killWorkers(t, path, processes, round%5)
		worked += strings.Count(printed, "done")
		s, err := Open(t.Context(), path, testScope())
		assert.NilError(t, err)
		assert.NilError(t, verify(t.Context(), s, printed))
		assert.NilError(t, s.Close())
	}
	assert.Assert(t, worked > processes, "the processes have worked: %d", worked)
}
