package backlog

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// roleVariable selects the role of a child process of the test binary.
const roleVariable = "BACKLOG_TEST_ROLE"

func process(t *testing.T, role, path string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	assert.NilError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, "BACKLOG_TEST_PATH="+path,
		"GORACE=atexit_sleep_ms=0") // no pause of the race detector at exit
	return cmd
}

// together runs n processes at the same time and returns their outputs.
func together(t *testing.T, n int, role, path string) []string {
	t.Helper()
	out := make([]strings.Builder, n)
	cmds := make([]*exec.Cmd, n)
	for i := range cmds {
		cmds[i] = process(t, role, path)
		cmds[i].Stdout, cmds[i].Stderr = &out[i], &out[i]
		assert.NilError(t, cmds[i].Start())
	}
	printed := make([]string, n)
	for i, cmd := range cmds {
		assert.NilError(t, cmd.Wait(), "%s", &out[i])
		printed[i] = strings.TrimSpace(out[i].String())
	}
	return printed
}

func perform(ctx context.Context, s *Store, role string) error {
	switch role {
	case "claim":
		task, err := s.Claim(ctx, ClaimOptions{Agent: fmt.Sprint(os.Getpid()), Lease: DefaultLease})
		if errors.Is(err, ErrNoneEligible) {
			fmt.Println("none")
			return s.Close()
		}
		fmt.Println(task.Slug)
		return errors.Join(err, s.Close())
	case "register":
		id, err := s.RegisterAgent(ctx, Agent{PID: os.Getpid(), Hostname: "box"})
		fmt.Println(id)
		return errors.Join(err, s.Close())
	case "sync":
		sum, err := s.Sync(ctx, strings.NewReader(bigPlan()))
		fmt.Println(sum.Inserted, sum.Updated, sum.Deleted)
		return errors.Join(err, s.Close())
	case "sync for ever":
		for {
			if _, err := s.Sync(ctx, strings.NewReader(bigPlan())); err != nil {
				return err
			}
			if _, err := s.DeleteMatching(ctx, DeleteFilter{All: true}); err != nil {
				return err
			}
			fmt.Println("synced")
		}
	case "claim all":
		return claimAll(ctx, s)
	case "work":
		return work(ctx, s)
	case "hammer":
		return hammer(ctx, s, 3*time.Second)
	case "hammer briefly":
		return hammer(ctx, s, time.Second/2)
	case "hold the lock":
		return s.write(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "UPDATE tasks SET title = 'half written'"); err != nil {
				return err
			}
			fmt.Println("held")
			_, err := os.Stdin.Read(make([]byte, 1)) // until the test kills the process
			return fmt.Errorf("rolled back on purpose: %w", err)
		})
	}
	return fmt.Errorf("unknown role %q", role)
}

func bigPlan() string {
	var b strings.Builder
	for i := range 50 { // a chain
		deps := ""
		if i > 0 {
			deps = fmt.Sprintf(`"p/%d"`, i-1)
		}
		_, _ = fmt.Fprintf(&b, `{"id":"p/%d","t":"T","spec":"p.md","deps":[%s],"steps":["one"]}`+"\n", i, deps)
	}
	return b.String()
}

func count(list []string) map[string]int {
	n := map[string]int{}
	for _, s := range list {
		n[s]++
	}
	return n
}

func TestConcurrentClaims(t *testing.T) {
	s := newStore(t)
	add(t, s, "a", "b", "c")
	assert.DeepEqual(t, count(together(t, 8, "claim", s.path)), map[string]int{"a": 1, "b": 1, "c": 1, "none": 5})
}

// The database does not exist yet.
func TestConcurrentRegistrations(t *testing.T) {
	for range 2 {
		path := dbPath(t)
		ids := together(t, 8, "register", path)
		assert.Equal(t, len(count(ids)), 8, "%v", ids)
		for _, id := range ids {
			assert.Equal(t, len(id), 4, id)
		}
		assert.Equal(t, query(t, path, "SELECT count(*) FROM agents; PRAGMA journal_mode"), "8\nwal\n")
	}
}

func TestConcurrentSyncs(t *testing.T) {
	path := dbPath(t)
	assert.DeepEqual(t, count(together(t, 5, "sync", path)), map[string]int{"50 0 0": 1, "0 0 0": 4})
	assert.Equal(t, query(t, path, "SELECT count(*) FROM tasks; SELECT count(*) FROM task_deps; PRAGMA integrity_check"), "50\n49\nok\n")
}

// start runs a process until it has printed a line.
func start(t *testing.T, role, path string) (kill func()) {
	t.Helper()
	cmd := process(t, role, path)
	stdin, err := cmd.StdinPipe()
	assert.NilError(t, err)
	stdout, err := cmd.StdoutPipe()
	assert.NilError(t, err)
	assert.NilError(t, cmd.Start())
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	assert.NilError(t, err, line)
	go func() { _, _ = io.Copy(io.Discard, lines) }() // or the process would block
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = stdin.Close()
	}
}

func TestKilledWriterIsRolledBack(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	kill := start(t, "hold the lock", s.path)
	kill()
	assert.Equal(t, get(t, s, "a").Title, "Title of a")
	claim(t, s, "a", "me")
}

// A plan of 50 tasks is complete or completely deleted.
func TestKilledSyncsAreAtomic(t *testing.T) {
	path := dbPath(t)
	for range 3 {
		killOne := start(t, "sync for ever", path)
		killTwo := start(t, "sync for ever", path)
		killOne()
		killTwo()
		assert.Equal(t, query(t, path, "PRAGMA integrity_check; SELECT count(*) FROM tasks; SELECT count(DISTINCT status) FROM tasks"), "ok\n50\n1\n")
	}
	s := openStore(t, path, testScope())
	_, err := s.Sync(t.Context(), strings.NewReader(bigPlan()))
	assert.NilError(t, err)
}

func TestWritersWaitForALockAndReadersDoNot(t *testing.T) {
	s := newStore(t)
	add(t, s, "a")
	claim(t, s, "a", "me")
	kill := start(t, "hold the lock", s.path)
	renewed := make(chan error, 1)
	go func() { renewed <- s.Renew(t.Context(), "a", "me", time.Minute) }()
	assert.Equal(t, get(t, openStore(t, s.path, testScope()), "a").Title, "Title of a", "read during a write")
	kill()
	assert.NilError(t, <-renewed)
}

func TestLockTimeoutIsReported(t *testing.T) {
	path := dbPath(t)
	add(t, openStore(t, path, testScope()), "a")
	kill := start(t, "hold the lock", path)
	defer kill()
	s, err := open(t.Context(), path, testScope(), backoff{
		busyTimeout: 10 * time.Millisecond, timeout: 50 * time.Millisecond, pause: time.Millisecond,
	}, 0)
	assert.NilError(t, err)
	defer func() { assert.NilError(t, s.Close()) }()
	_, err = s.Claim(t.Context(), ClaimOptions{Agent: "me"})
	assert.ErrorIs(t, err, ErrLocked)
	assert.Error(t, err, "database is locked")
}

func TestTransactionIsRetriedWhileLocked(t *testing.T) {
	path := dbPath(t)
	add(t, openStore(t, path, testScope()), "a")
	kill := start(t, "hold the lock", path)
	attempts := 0
	s, err := open(t.Context(), path, testScope(), backoff{
		busyTimeout: time.Millisecond, timeout: time.Minute, pause: time.Millisecond,
	}, 0)
	assert.NilError(t, err)
	defer func() { assert.NilError(t, s.Close()) }()
	err = s.wait.retry(t.Context(), func() error {
		if attempts++; attempts == 2 {
			kill()
		}
		return s.db.QueryRowContext(t.Context(), "UPDATE tasks SET priority = 0 RETURNING slug").Scan(new(string))
	})
	assert.NilError(t, err)
	assert.Assert(t, attempts > 1)
}

func TestCanceledContextStopsWaiting(t *testing.T) {
	s := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Claim(ctx, ClaimOptions{})
	assert.ErrorIs(t, err, context.Canceled)
}
