package backlogs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

// fixture is a host with a worktree.
type fixture struct {
	h        host.Host
	wt       gitrepo.Worktree
	messages bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{wt: gitrepo.Worktree{Root: t.TempDir(), Scope: gitrepo.Scope{Repo: "acme/shop", Branch: "main"}}}
	f.h = host.Host{StateDir: t.TempDir(), Stderr: &f.messages}
	out, err := exec.CommandContext(t.Context(), "git", "-C", f.wt.Root, "-c", "user.name=a", "-c", "user.email=a@b", "init", "-q", "-b", "main").CombinedOutput()
	assert.NilError(t, err, "%s", out)
	return f
}

// open opens the backlog of the worktree under a branch.
func (f *fixture) open(t *testing.T, branch string) *backlog.Store {
	t.Helper()
	wt := f.wt
	wt.Scope.Branch = branch
	s, err := Open(t.Context(), f.h, wt)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, s.Close()) })
	return s
}

// own creates the backlog in the worktree.
func (f *fixture) own(t *testing.T, branch string, slugs ...string) {
	t.Helper()
	s, err := backlog.Open(t.Context(), f.ownPath(), backlog.Scope{Repo: "acme/shop", Branch: branch})
	assert.NilError(t, err)
	add(t, s, slugs...)
	assert.NilError(t, s.Close())
}

func (f *fixture) ownPath() string { return filepath.Join(f.wt.Root, ".ralph", database) }

func add(t *testing.T, s *backlog.Store, slugs ...string) {
	t.Helper()
	for _, slug := range slugs {
		assert.NilError(t, s.Create(t.Context(), backlog.NewTask{Slug: slug, Title: slug}))
	}
}

func slugs(t *testing.T, s *backlog.Store) (all []string) {
	t.Helper()
	lines, err := s.Lines(t.Context(), backlog.Filter{})
	assert.NilError(t, err)
	for _, l := range lines {
		all = append(all, l.Slug)
	}
	return all
}

func TestOpenImportsTheBacklogOfTheWorktreeOnce(t *testing.T) {
	f := newFixture(t)
	f.own(t, "main", "a", "b")
	f.own(t, "other", "c")
	s := f.open(t, "main")
	assert.DeepEqual(t, slugs(t, s), []string{"a", "b"})
	assert.Equal(t, f.messages.String(), "Imported 2 tasks from .ralph/tasks.db\n")
	_, err := os.Stat(f.ownPath())
	assert.NilError(t, err, "the file stays")

	f.own(t, "main", "d")
	add(t, s, "e")
	assert.DeepEqual(t, slugs(t, f.open(t, "main")), []string{"a", "b", "e"})
	assert.DeepEqual(t, slugs(t, f.open(t, "other")), []string{"c"})
	assert.Equal(t, f.messages.String(), "Imported 2 tasks from .ralph/tasks.db\nImported 1 task from .ralph/tasks.db\n")
	entries, err := os.ReadDir(filepath.Dir(path(f.h, "ralph-acme-shop-main")))
	assert.NilError(t, err)
	for _, e := range entries {
		assert.Check(t, !e.IsDir(), "%s is left", e.Name())
	}
}

// A repository can have anything below .ralph.
func TestOpenWithoutABacklogInTheWorktree(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), database)
	assert.NilError(t, os.WriteFile(elsewhere, nil, 0o600))
	for _, tc := range []struct {
		name  string
		make  func(f *fixture) error
		error string // none: the backlog is empty
	}{
		{"nothing", func(*fixture) error { return nil }, ""},
		{"another program's folder", func(f *fixture) error { return os.Mkdir(filepath.Dir(f.ownPath()), 0o755) }, ""},
		{"a file", func(f *fixture) error { return os.WriteFile(filepath.Dir(f.ownPath()), nil, 0o644) }, ""},
		{"a linked folder", func(f *fixture) error { return os.Symlink(filepath.Dir(elsewhere), filepath.Dir(f.ownPath())) }, ""},
		{"a link", func(f *fixture) error {
			return os.Symlink(elsewhere, f.ownPath())
		}, "tasks.db: not a regular file"},
		{"a folder", func(f *fixture) error { return os.Mkdir(f.ownPath(), 0o755) }, "tasks.db: not a regular file"},
		{"another file", func(f *fixture) error {
			return os.WriteFile(f.ownPath(), bytes.Repeat([]byte("no database "), 1000), 0o644)
		}, "tasks.db: task database "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			if tc.error != "" {
				assert.NilError(t, os.Mkdir(filepath.Dir(f.ownPath()), 0o755))
			}
			assert.NilError(t, tc.make(f))
			if tc.error == "" {
				assert.Equal(t, len(slugs(t, f.open(t, "main"))), 0)
				assert.Equal(t, f.messages.String(), "")
				return
			}
			_, err := Open(t.Context(), f.h, f.wt)
			assert.ErrorContains(t, err, tc.error)
			assert.Check(t, is.Contains(err.Error(), "importing "+f.ownPath()+": "))
			assert.Check(t, !strings.Contains(err.Error(), f.h.StateDir), "%v", err)
			assert.DeepEqual(t, hint.Of(err), []string{"to start with an empty backlog, move " + f.ownPath() + " away"})
			s, err := Read(t.Context(), f.h, "ralph-acme-shop-main", f.wt.Scope)
			assert.NilError(t, err)
			assert.Assert(t, s == nil, "nothing was created")
		})
	}
}

func TestReadCreatesNothing(t *testing.T) {
	f := newFixture(t)
	s, err := Read(t.Context(), f.h, "ralph-acme-shop-main", f.wt.Scope)
	assert.NilError(t, err)
	assert.Assert(t, s == nil)
	entries, err := os.ReadDir(f.h.StateDir)
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 0)

	add(t, f.open(t, "main"), "a")
	for _, name := range []string{"ralph-acme-shop-main", "ralph-acme-shop-main-ephemeral"} {
		s, err := ReadOf(t.Context(), f.h, lifecycle.Sandbox{Name: name, Root: f.wt.Root, Scope: f.wt.Scope})
		assert.NilError(t, err)
		assert.DeepEqual(t, slugs(t, s), []string{"a"})
		assert.NilError(t, s.Close())
	}
}

// The backlog of a worktree stays the same when another one with the same scope is removed.
func TestWorktreesOfTheSameScopeHaveTheirOwnBacklogs(t *testing.T) {
	f, other := newFixture(t), newFixture(t)
	other.h = f.h
	add(t, other.open(t, "main"), "other")
	add(t, f.open(t, "main"), "own")
	assert.DeepEqual(t, slugs(t, other.open(t, "main")), []string{"other"})
	assert.NilError(t, os.RemoveAll(other.wt.Root))
	assert.DeepEqual(t, slugs(t, f.open(t, "main")), []string{"own"})
}

func TestFormerBacklogsAreAdopted(t *testing.T) {
	git := func(f *fixture, args ...string) error {
		args = append([]string{"-C", f.wt.Root, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)
		return exec.CommandContext(t.Context(), "git", args...).Run()
	}
	for _, tc := range []struct {
		name   string
		branch string // of the former backlog
		change func(f *fixture) error
		want   int64
	}{
		{"renamed branch", "old", func(*fixture) error { return nil }, 2},
		{"another branch", "topic", func(f *fixture) error { return git(f, "branch", "topic") }, 0},
		{"another origin", "main", func(f *fixture) error { f.wt.Scope.Repo = "acme/store"; return nil }, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			assert.NilError(t, git(f, "commit", "-q", "--allow-empty", "-m", "start"))
			add(t, f.open(t, tc.branch), "a", "b")
			assert.NilError(t, tc.change(f))

			into := f.open(t, "main")
			former := Former{Host: f.h, Worktree: f.wt}
			list, err := former.List(t.Context())
			assert.NilError(t, err)
			if tc.want == 0 {
				assert.Equal(t, len(list), 0)
				return
			}
			from := backlog.Scope{Repo: "acme/shop", Branch: tc.branch}
			assert.DeepEqual(t, list, []backlog.Other{{Scope: from, Tasks: 2}})
			n, err := former.Adopt(t.Context(), into, from)
			assert.NilError(t, err)
			assert.Equal(t, n, tc.want)
			assert.DeepEqual(t, slugs(t, into), []string{"a", "b"})
			list, err = former.List(t.Context())
			assert.NilError(t, err)
			assert.Equal(t, len(list), 0)
		})
	}
}

// A moved worktree keeps the backlog under its name. One whose name depends on its path has to adopt it.
func TestMovedWorktreesKeepTheirBacklogs(t *testing.T) {
	for name, shared := range map[string]bool{"own name": false, "shared name": true} {
		t.Run(name, func(t *testing.T) {
			f, other := newFixture(t), newFixture(t)
			other.h = f.h
			if shared {
				add(t, other.open(t, "main"), "other")
			}
			add(t, f.open(t, "main"), "own")
			moved := f.wt.Root + "-moved"
			assert.NilError(t, os.Rename(f.wt.Root, moved))
			f.wt.Root = moved

			s := f.open(t, "main")
			if shared {
				n, err := Former{Host: f.h, Worktree: f.wt}.Adopt(t.Context(), s, backlog.Scope(f.wt.Scope))
				assert.NilError(t, err)
				assert.Equal(t, n, int64(1))
			}
			assert.DeepEqual(t, slugs(t, s), []string{"own"})
		})
	}
}

func TestReadersShowTheBacklog(t *testing.T) {
	f := newFixture(t)
	s := f.open(t, "main")
	add(t, s, "a", "b\x1b[2J")
	assert.NilError(t, s.Create(t.Context(), backlog.NewTask{Slug: "c", Title: "c", Deps: []string{"a"}}))
	assert.NilError(t, s.Park(t.Context(), "a", backlog.NewQuestion{Text: "Which?"}))

	tasks, err := Tasks(t.Context(), f.h, "ralph-acme-shop-main", f.wt.Scope)
	assert.NilError(t, err)
	var statuses []string
	for _, task := range tasks {
		assert.Check(t, !bytes.ContainsRune([]byte(task.ID+task.Title), '\x1b'))
		statuses = append(statuses, task.Status)
	}
	assert.DeepEqual(t, statuses, []string{"question", "open", "open"})

	counts, err := Counts(t.Context(), s)
	assert.NilError(t, err)
	assert.Equal(t, *counts, runlog.Counts{Open: 1, Waiting: 1, Question: 1})

	open, err := Questions(t.Context(), f.h, "ralph-acme-shop-main", f.wt.Scope)
	assert.NilError(t, err)
	assert.Equal(t, len(open), 1)
	assert.Check(t, is.DeepEqual([]string{open[0].ID, open[0].Text}, []string{"a", "Which?"}))
	none, err := Questions(t.Context(), f.h, "ralph-acme-shop-other", f.wt.Scope)
	assert.NilError(t, err)
	assert.DeepEqual(t, none, []taskjson.OpenQuestion(nil))
}

// The copy of a dry run is kept for another process that takes it over, and removed with or after its record.
func TestCopiesOfDryRuns(t *testing.T) {
	const name = "ralph-acme-shop-main"
	f := newFixture(t)
	s := f.open(t, "main")
	add(t, s, "a")
	open := func(id string) *backlog.Store {
		c, err := OpenCopy(t.Context(), f.h, name, id, s)
		assert.NilError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	assert.NilError(t, SweepCopies(f.h, name), "there are none")
	for _, id := range []string{"running", "killed", "ended"} {
		add(t, open(id), id)
		assert.DeepEqual(t, slugs(t, open(id)), []string{"a", id})
	}
	assert.DeepEqual(t, slugs(t, s), []string{"a"})

	held, err := f.h.NewRecord(host.Record{ID: "running", Command: []string{"ralph", "plan", "--dry-run"}, Sandbox: name + "-abcdefgh"})
	assert.NilError(t, err)
	defer held.Done(nil)
	assert.NilError(t, RemoveCopy(f.h, name, "ended"))
	assert.NilError(t, RemoveCopy(f.h, name, "none"))
	assert.NilError(t, SweepCopies(f.h, name))
	left, err := os.ReadDir(copyDir(f.h, name, ""))
	assert.NilError(t, err)
	assert.Equal(t, len(left), 1)
	assert.Equal(t, left[0].Name(), "running")
	assert.DeepEqual(t, slugs(t, open("killed")), []string{"a"})
}
