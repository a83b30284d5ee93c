package backlogs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/dbcopy"
)

// moving is a worktree, a sandbox whose clone is another directory, and what interrupts a move
// between them.
type moving struct {
	lifecycle.Driver
	t        *testing.T
	backlog  Backlog
	sb       lifecycle.Sandbox
	clone    string
	messages *bytes.Buffer
	execs    int

	left    int // steps before an interruption; negative for none
	stopped string
}

var errInterrupted = errors.New("interrupted")

func newMoving(t *testing.T) *moving {
	t.Helper()
	m := &moving{t: t, clone: repository(t), messages: &bytes.Buffer{}, left: -1}
	m.sb = lifecycle.Sandbox{Name: "box", Root: repository(t), Clone: true, State: lifecycle.Running}
	m.backlog = Backlog{Host: host.Host{StateDir: t.TempDir(), Stderr: m.messages}, Sandbox: "box", afterStep: m.step}
	return m
}

func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "git", "init", "-q", dir).CombinedOutput()
	assert.NilError(t, err, string(out))
	return dir
}

func (m *moving) step(name string) error {
	if m.left == 0 {
		m.stopped = name
		return errInterrupted
	}
	m.left--
	return nil
}

// Exec runs ralph in the clone. It can be interrupted before, or lose the answer.
func (m *moving) Exec(ctx context.Context, _ lifecycle.Sandbox, p lifecycle.Process) (int, error) {
	m.execs++
	if err := m.step("before " + p.Args[2]); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0], p.Args[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = m.clone, p.Stdin, p.Stdout, p.Stderr
	cmd.Env = append(os.Environ(), asProgram+"=1")
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	if err == nil {
		err = m.step("after " + p.Args[2])
	}
	return 0, err
}

func (m *moving) moveIn() error {
	return m.backlog.MoveIn(m.t.Context(), m, m.sb, func() error { return nil })
}
func (m *moving) giveBack() error { return m.backlog.Return(m.t.Context(), m, m.sb) }

// inside reports whether the sandbox has the backlog.
func (m *moving) inside() bool {
	m.t.Helper()
	inside, err := m.backlog.InSandbox(m.t.Context())
	assert.NilError(m.t, err)
	return inside
}

func databaseIn(dir string) string { return filepath.Join(dir, ".ralph", database) }

// add adds a task. If killed, the database is left as by a killed process, with a log.
func add(t *testing.T, dir, slug string, killed bool) {
	t.Helper()
	from := dir
	if killed {
		from = t.TempDir()
	}
	s, err := backlog.Open(t.Context(), databaseIn(from), backlog.Scope{Repo: "o/r", Branch: "main"})
	assert.NilError(t, err)
	assert.NilError(t, s.Create(t.Context(), backlog.NewTask{Slug: slug, Title: slug}))
	if killed {
		copyDatabase(t, from, dir)
		assert.Assert(t, !host.Missing(databaseIn(dir)+"-wal"))
	}
	assert.NilError(t, s.Close())
}

func copyDatabase(t *testing.T, from, to string) {
	t.Helper()
	assert.NilError(t, os.MkdirAll(filepath.Dir(databaseIn(to)), 0o755))
	for _, suffix := range dbcopy.Suffixes() {
		content, err := os.ReadFile(databaseIn(from) + suffix)
		if err == nil {
			assert.NilError(t, os.WriteFile(databaseIn(to)+suffix, content, 0o644))
		}
	}
}

// tasks lists the tasks of a directory, without changing it.
func tasks(t *testing.T, dir string) string {
	t.Helper()
	if host.Missing(databaseIn(dir)) {
		return "missing"
	}
	look := t.TempDir()
	copyDatabase(t, dir, look)
	s, err := backlog.Open(t.Context(), databaseIn(look), backlog.Scope{Repo: "o/r", Branch: "main"})
	assert.NilError(t, err)
	all, err := s.List(t.Context(), backlog.Filter{})
	assert.NilError(t, errors.Join(err, s.Close()))
	var slugs []string
	for _, task := range all {
		slugs = append(slugs, task.Slug)
	}
	slices.Sort(slugs)
	return strings.Join(slugs, " ")
}

func (m *moving) owned() string {
	m.t.Helper()
	if m.inside() {
		return tasks(m.t, m.clone)
	}
	return tasks(m.t, m.sb.Root)
}

func leftovers(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, ".ralph"))
	assert.NilError(t, err)
	var names []string
	for _, e := range entries {
		if e.Name() != "logs" && e.Name() != ".gitignore" {
			names = append(names, e.Name())
		}
	}
	return strings.Join(names, " ")
}

func TestBacklogMovesInAndBack(t *testing.T) {
	m := newMoving(t)
	add(t, m.sb.Root, "a", true)
	assert.NilError(t, m.moveIn())
	assert.Assert(t, m.inside())
	assert.Equal(t, tasks(t, m.sb.Root), "missing")
	assert.Equal(t, tasks(t, m.clone), "a")
	execs := m.execs
	assert.NilError(t, m.moveIn())
	assert.Equal(t, m.execs, execs, "nothing runs in the sandbox again")
	add(t, m.clone, "b", false)

	assert.NilError(t, m.giveBack())
	assert.Assert(t, !m.inside())
	assert.Equal(t, tasks(t, m.sb.Root), "a b")
	assert.Equal(t, tasks(t, m.clone), "missing")
	assert.Equal(t, leftovers(t, m.sb.Root), "tasks.db")
	assert.NilError(t, m.giveBack())

	// Again, in the same sandbox.
	add(t, m.sb.Root, "c", false)
	assert.NilError(t, m.moveIn())
	assert.Equal(t, tasks(t, m.clone), "a b c")
	assert.NilError(t, m.giveBack())
	assert.Equal(t, tasks(t, m.sb.Root), "a b c")
	assert.Equal(t, m.messages.String(), "")
}

// After an interruption at any step, one side owns all tasks, and the next command completes the
// move, or moves back.
func TestInterruptedMoveLosesNothing(t *testing.T) {
	t.Parallel()
	moveIn, giveBack := (*moving).moveIn, (*moving).giveBack
	for _, tc := range []struct {
		name       string
		first      func(*moving) error // what is interrupted
		then       func(*moving) error
		prepared   bool // the backlog is in the sandbox before
		wantInside bool
	}{
		{"in, in", moveIn, moveIn, false, true},
		{"in, back", moveIn, giveBack, false, false},
		{"back, back", giveBack, giveBack, true, false},
		{"back, in", giveBack, moveIn, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			steps := 0
			for ; ; steps++ {
				m := newMoving(t)
				add(t, m.sb.Root, "a", true)
				want := "a"
				if tc.prepared {
					assert.NilError(t, m.moveIn())
					add(t, m.clone, "b", false)
					want = "a b"
				}
				m.left = steps
				err := tc.first(m)
				if err == nil {
					break
				}
				assert.ErrorIs(t, err, errInterrupted)
				m.left = -1
				assert.Equal(t, m.owned(), want, m.stopped)
				assert.NilError(t, tc.then(m), m.stopped)
				assert.Equal(t, m.inside(), tc.wantInside, m.stopped)
				assert.Equal(t, m.owned(), want, m.stopped)
				other := m.sb.Root
				if !tc.wantInside {
					other = m.clone
				}
				assert.Equal(t, tasks(t, other), "missing", m.stopped)
				// Later changes survive a complete cycle.
				owner := m.sb.Root
				if tc.wantInside {
					owner = m.clone
				}
				add(t, owner, "z", false)
				assert.NilError(t, m.moveIn(), m.stopped)
				assert.NilError(t, m.giveBack(), m.stopped)
				assert.Equal(t, tasks(t, m.sb.Root), want+" z", m.stopped)
				assert.Equal(t, leftovers(t, m.sb.Root), "tasks.db", m.stopped)
				assert.Equal(t, m.messages.String(), "", m.stopped)
			}
			assert.Assert(t, steps > 4, "%d steps", steps)
		})
	}
}

func TestWorktreeWithoutABacklog(t *testing.T) {
	m := newMoving(t)
	assert.NilError(t, m.moveIn())
	assert.Assert(t, m.inside())
	assert.Equal(t, m.execs, 0)
	assert.NilError(t, m.giveBack())
	assert.Equal(t, tasks(t, m.sb.Root), "missing")
	assert.NilError(t, m.moveIn())
	add(t, m.clone, "a", false)
	assert.NilError(t, m.giveBack())
	assert.Equal(t, tasks(t, m.sb.Root), "a")
}

func TestLostBacklogOfASandbox(t *testing.T) {
	m := newMoving(t)
	add(t, m.sb.Root, "a", true)
	assert.NilError(t, m.moveIn())
	assert.NilError(t, os.RemoveAll(filepath.Join(m.clone, ".ralph")))
	assert.NilError(t, m.giveBack())
	assert.Equal(t, tasks(t, m.sb.Root), "a")
	assert.Assert(t, strings.Contains(m.messages.String(), "has lost its backlog"), m.messages.String())
}

func TestBacklogOfARemovedWorktreeIsCopied(t *testing.T) {
	t.Setenv("RALPH_SCOPE_REPO", "o/r")
	t.Setenv("RALPH_SCOPE_BRANCH", "main")
	m := newMoving(t)
	add(t, m.sb.Root, "a", false)
	assert.NilError(t, m.moveIn())
	assert.NilError(t, os.RemoveAll(m.sb.Root))
	retire := func() error { return m.backlog.Retire(t.Context(), m, m.sb) }
	m.left = 0
	assert.ErrorIs(t, retire(), errInterrupted)
	assert.Assert(t, m.inside())
	m.left = -1
	assert.NilError(t, retire())
	assert.Assert(t, !m.inside())
	copies, err := m.backlog.Copies()
	assert.NilError(t, err)
	assert.Equal(t, len(copies), 1)
	assert.DeepEqual(t, copies[0].Counts, map[string]int{"open": 1})
	assert.Assert(t, host.Missing(m.sb.Root))
}

func TestTwoBacklogsAreBothKept(t *testing.T) {
	m := newMoving(t)
	add(t, m.sb.Root, "host", true)
	add(t, m.clone, "sandbox", false)
	assert.NilError(t, m.moveIn())
	assert.Equal(t, tasks(t, m.clone), "sandbox")
	assert.Assert(t, strings.Contains(m.messages.String(), "has its own backlog"), m.messages.String())

	add(t, m.sb.Root, "native", false) // by a ralph on the host
	assert.NilError(t, m.giveBack())
	assert.Equal(t, tasks(t, m.sb.Root), "sandbox")
	kept := map[string]bool{}
	found, err := filepath.Glob(filepath.Join(m.sb.Root, ".ralph", replaced+"*"))
	assert.NilError(t, err)
	for _, path := range found {
		if strings.HasSuffix(path, "-wal") || strings.HasSuffix(path, "-shm") {
			continue
		}
		s, err := backlog.Open(t.Context(), path, backlog.Scope{Repo: "o/r", Branch: "main"})
		assert.NilError(t, err)
		all, err := s.List(t.Context(), backlog.Filter{})
		assert.NilError(t, errors.Join(err, s.Close()))
		kept[all[0].Slug] = true
	}
	assert.DeepEqual(t, kept, map[string]bool{"host": true, "native": true})
}

func TestEmptyBacklogOfASandboxIsReplaced(t *testing.T) {
	m := newMoving(t)
	add(t, m.sb.Root, "a", true)
	s, err := backlog.Open(t.Context(), databaseIn(m.clone), backlog.Scope{})
	assert.NilError(t, err)
	assert.NilError(t, s.Close())
	assert.NilError(t, m.moveIn())
	assert.Equal(t, tasks(t, m.clone), "a")
}

func TestDamagedBacklogStaysInTheWorktree(t *testing.T) {
	m := newMoving(t)
	assert.NilError(t, os.MkdirAll(filepath.Join(m.sb.Root, ".ralph"), 0o755))
	assert.NilError(t, os.WriteFile(databaseIn(m.sb.Root), []byte(strings.Repeat("garbage", 1000)), 0o644))
	assert.ErrorContains(t, m.moveIn(), "is damaged")
	assert.Assert(t, !m.inside())
	assert.Assert(t, host.Missing(databaseIn(m.clone)))
	assert.NilError(t, os.Remove(databaseIn(m.sb.Root)))
	assert.NilError(t, m.moveIn(), "as the hint says")
	assert.Assert(t, m.inside())
}

// sending is a driver whose sandbox sends something else than its database.
type sending struct {
	lifecycle.Driver
	output []byte
}

func (s sending) Exec(_ context.Context, _ lifecycle.Sandbox, p lifecycle.Process) (int, error) {
	_, err := p.Stdout.Write(s.output)
	return 0, err
}

func TestHostileDatabasesAreRefused(t *testing.T) {
	valid := slices.Concat([]byte("SQLite format 3\x00\x10\x00"), make([]byte, 4096-18))
	stream := func(files ...dbcopy.File) []byte {
		var b bytes.Buffer
		assert.NilError(t, dbcopy.Send(&b, files))
		return b.Bytes()
	}
	file := func(suffix string, content []byte) dbcopy.File {
		return dbcopy.File{Suffix: suffix, Size: int64(len(content)), Content: bytes.NewReader(content)}
	}
	for name, output := range map[string][]byte{
		"garbage":   []byte("garbage"),
		"no magic":  stream(file("", make([]byte, 4096))),
		"too short": stream(file("", valid[:50])),
		"odd size":  stream(file("", valid[:4000])),
		"a log":     stream(file("", valid), file("-wal", []byte("x"))),
		"cut":       stream(file("", valid))[:3000],
	} {
		t.Run(name, func(t *testing.T) {
			m := newMoving(t)
			add(t, m.sb.Root, "a", true)
			assert.NilError(t, m.moveIn())
			err := m.backlog.Return(t.Context(), sending{output: output}, m.sb)
			assert.ErrorContains(t, err, "moving the backlog out of the sandbox box")
			assert.Assert(t, m.inside())
			assert.NilError(t, m.giveBack())
			assert.Equal(t, tasks(t, m.sb.Root), "a")
		})
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	m := newMoving(t)
	add(t, m.sb.Root, "a", true)
	assert.NilError(t, m.moveIn())
	victim := filepath.Join(t.TempDir(), "victim")
	assert.NilError(t, os.WriteFile(victim, []byte("safe"), 0o644))
	for _, name := range []string{database, arriving, arrived, database + "-wal"} {
		assert.NilError(t, os.Symlink(victim, filepath.Join(m.sb.Root, ".ralph", name)))
	}
	assert.NilError(t, m.giveBack())
	content, err := os.ReadFile(victim)
	assert.NilError(t, err)
	assert.Equal(t, string(content), "safe")
	assert.Equal(t, tasks(t, m.sb.Root), "a")

	linked := newMoving(t)
	assert.NilError(t, os.MkdirAll(filepath.Join(linked.sb.Root, ".ralph"), 0o755))
	assert.NilError(t, os.Symlink(victim, databaseIn(linked.sb.Root)))
	assert.ErrorContains(t, linked.moveIn(), "not a regular file")
}

func TestOtherSandboxesKeepTheirBacklog(t *testing.T) {
	b := Backlog{Host: host.Host{StateDir: t.TempDir()}, Sandbox: "box"}
	live := lifecycle.Sandbox{Name: "box", Root: t.TempDir()}
	assert.NilError(t, b.MoveIn(t.Context(), nil, live, func() error { return nil }))
	assert.NilError(t, b.Return(t.Context(), nil, live))
	inside, err := b.InSandbox(t.Context())
	assert.NilError(t, err)
	assert.Assert(t, !inside)
	for _, content := range []string{"", "{}", "garbage"} {
		assert.NilError(t, os.MkdirAll(b.dir(), 0o700))
		assert.NilError(t, os.WriteFile(b.ownerPath(), []byte(content), 0o600))
		_, err := b.InSandbox(t.Context())
		assert.ErrorContains(t, err, "reading "+b.ownerPath())
	}
	assert.NilError(t, os.WriteFile(b.ownerPath(), fmt.Append(nil, `{"id":"x","state":"later"}`), 0o600))
	live.Clone = true
	assert.ErrorContains(t, b.MoveIn(t.Context(), nil, live, func() error { return nil }), "newer version")
}
