package manage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// treeHost returns a host in a repository with one commit and an origin, without an
// engine.
func treeHost(t *testing.T) (h host.Host, stderr *bytes.Buffer) {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(t.TempDir(), "none"))
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"config", "user.name", "T"},
		{"config", "user.email", "t@example.com"},
		{"commit", "-q", "--allow-empty", "-m", "first"},
		{"remote", "add", "origin", "https://git.example/acme/shop.git"},
	} {
		gitTree(t, dir, args...)
	}
	stderr = &bytes.Buffer{}
	return host.Host{
		Dir: dir, StateDir: t.TempDir(), Stderr: stderr,
		Engine:    func() (host.API, error) { return nil, errors.New("no engine") },
		LookupEnv: func(string) (string, bool) { return "", false },
	}, stderr
}

func gitTree(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	assert.NilError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

func TestAddWorktreeAsks(t *testing.T) {
	for _, tc := range []struct {
		name, given, answer, question, branch string
	}{
		{"x", "", "", "Branch name (press Enter to use 'x'): ", "x"},
		{"x", "", " main2 \n", "Branch name (press Enter to use 'x'): ", "main2"},
		{"x", "given", "not asked", "", "given"},
	} {
		h, _ := treeHost(t)
		asked := ""
		h.Ask = func(_ context.Context, question string) (string, error) {
			asked = question
			return tc.answer, nil
		}
		path, err := host.AddWorktree(t.Context(), h, host.Worktree{Name: tc.name, Branch: tc.given})
		assert.NilError(t, err)
		assert.Equal(t, path, filepath.Join(h.Dir, ".worktrees", tc.name))
		assert.Equal(t, asked, tc.question)
		assert.Equal(t, gitTree(t, path, "branch", "--show-current"), tc.branch)

		asked = ""
		again, err := host.AddWorktree(t.Context(), h, host.Worktree{Name: tc.name})
		assert.NilError(t, err)
		assert.Equal(t, again, path)
		assert.Equal(t, asked, "", "it exists")
		_, err = host.AddWorktree(t.Context(), h, host.Worktree{Name: tc.name, Branch: "other"})
		assert.ErrorContains(t, err, `worktree "x" exists already, on branch "`+tc.branch+`", not on "other"`)

		assert.NilError(t, os.RemoveAll(path))
		_, err = host.AddWorktree(t.Context(), h, host.Worktree{Name: tc.name})
		assert.NilError(t, err)
		assert.Equal(t, asked, "", "its branch still exists")
		assert.Equal(t, gitTree(t, path, "branch", "--show-current"), tc.branch)
	}
}

func TestAddWorktreeWithoutAName(t *testing.T) {
	h, stderr := treeHost(t)
	form := regexp.MustCompile(`^[A-Za-z0-9]{8}$`)
	for range 2 {
		path, err := host.AddWorktree(t.Context(), h, host.Worktree{})
		assert.NilError(t, err)
		name := filepath.Base(path)
		assert.Assert(t, form.MatchString(name), name)
		assert.Assert(t, is.Contains(stderr.String(), "Created worktree .worktrees/"+name+" on the new branch "+name+"\n"))
	}
	names, err := host.WorktreeNames(t.Context(), h.Dir)
	assert.NilError(t, err)
	assert.Equal(t, len(names), 2)

	h.Ask = func(context.Context, string) (string, error) { return "", context.Canceled }
	_, err = host.AddWorktree(t.Context(), h, host.Worktree{Name: "x"})
	assert.ErrorIs(t, err, context.Canceled)
	_, err = os.Stat(filepath.Join(h.Dir, ".worktrees", "x"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// Concurrent commands for the same worktree: one creates it, all use it.
func TestAddWorktreeConcurrently(t *testing.T) {
	h, _ := treeHost(t)
	var group sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		own := h
		own.Stderr = &bytes.Buffer{}
		group.Go(func() { _, errs[i] = host.AddWorktree(t.Context(), own, host.Worktree{Name: []string{"x", "y"}[i%2]}) })
	}
	group.Wait()
	assert.NilError(t, errors.Join(errs...))
	assert.Equal(t, strings.Count(gitTree(t, h.Dir, "worktree", "list"), "\n"), 2)
}

func TestIntoNeedsAScope(t *testing.T) {
	h, _ := treeHost(t)
	in, err := h.Into(t.Context(), &host.Worktree{Name: "x"}, nil)
	assert.NilError(t, err)
	assert.Equal(t, in.Dir, filepath.Join(h.Dir, ".worktrees", "x"))
	gitTree(t, h.Dir, "checkout", "-q", "--detach")
	_, err = h.Into(t.Context(), &host.Worktree{Name: "y"}, nil)
	assert.NilError(t, err, "a worktree has a branch of its own")
	gitTree(t, h.Dir, "remote", "remove", "origin")
	_, err = h.Into(t.Context(), &host.Worktree{Name: "z"}, nil)
	assert.ErrorIs(t, err, gitrepo.ErrNoOrigin)
	_, err = os.Stat(filepath.Join(h.Dir, ".worktrees", "z"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// boxed is a driver with one sandbox, which records calls.
type boxed struct {
	lifecycle.Driver
	sb      lifecycle.Sandbox
	busy    bool
	history []string
}

func (b *boxed) Lookup(context.Context, string) (lifecycle.Sandbox, error) { return b.sb, nil }

func (b *boxed) Busy(context.Context, lifecycle.Sandbox) (bool, error) { return b.busy, nil }

func (b *boxed) Dispatches(context.Context, lifecycle.Sandbox) ([]lifecycle.Dispatch, error) {
	return []lifecycle.Dispatch{{Command: []string{"/opt/x/ralph", "build", "\x1b"}}}, nil
}

func (b *boxed) Stop(context.Context, lifecycle.Sandbox) error {
	b.history = append(b.history, "stop")
	b.sb.State = lifecycle.Stopped
	return nil
}

func (b *boxed) Remove(context.Context, lifecycle.Sandbox) error {
	b.history = append(b.history, "remove")
	return nil
}

func TestRemoveWorktreeWithBusySandbox(t *testing.T) {
	d := &boxed{sb: lifecycle.Sandbox{Name: "ralph-x", State: lifecycle.Running}, busy: true}
	box := host.Located{Sandbox: d.sb, Backend: host.Backend{Kind: config.DriverContainer, Driver: d}}
	r := &removal{WorktreeRemoval: WorktreeRemoval{Name: "x"}}
	assert.Error(t, r.stopBusy(t.Context(), &box), `"ralph build \x1b" is running in sandbox ralph-x of worktree "x"`)
	assert.Equal(t, len(d.history), 0)
	r.Force = true
	assert.NilError(t, r.stopBusy(t.Context(), &box))
	assert.DeepEqual(t, d.history, []string{"stop"})
	assert.Equal(t, box.Sandbox.State, lifecycle.Stopped)
}

func TestRemoveWorktreeReportsUnmergedWork(t *testing.T) {
	h, stderr := treeHost(t)
	path, err := host.AddWorktree(t.Context(), h, host.Worktree{Name: "x"})
	assert.NilError(t, err)
	assert.NilError(t, os.WriteFile(filepath.Join(path, "a\x1b"), nil, 0o600))
	gitTree(t, path, "commit", "-q", "--allow-empty", "-m", "one\x1b")
	gitTree(t, h.Dir, "update-ref", "refs/ralph/ralph-x/other", gitTree(t, path, "commit-tree", "-m", "stray", "HEAD^{tree}"))

	d := &boxed{}
	h.Engine = nil
	removing := func(opts WorktreeRemoval) *removal {
		opts.Name = "x"
		repo, openErr := host.OpenRepository(t.Context(), h.Dir)
		assert.NilError(t, openErr)
		r := &removal{WorktreeRemoval: opts, host: h, repo: repo}
		assert.NilError(t, r.find(t.Context()))
		r.boxes = []host.Located{{Sandbox: lifecycle.Sandbox{Name: "ralph-x"}, Backend: host.Backend{Driver: d}}}
		assert.NilError(t, r.findLosses(t.Context()))
		return r
	}
	stray := gitTree(t, h.Dir, "rev-parse", "refs/ralph/ralph-x/other")
	text := removing(WorktreeRemoval{}).refuse().Error()
	assert.Check(t, is.Contains(text, `uncommitted changes in 1 file: "a\x1b"`))
	assert.Check(t, is.Contains(text, `"one\x1b"; they stay on branch x`))
	assert.Check(t, is.Contains(text, "they stay at refs/ralph/ralph-x/other"))

	for _, ref := range []string{"attempts/a/1", "attempts/a/2", "@undone/loop"} {
		gitTree(t, h.Dir, "update-ref", "refs/ralph/ralph-x/"+ref, stray)
	}
	assert.Check(t, !strings.Contains(removing(WorktreeRemoval{}).refuse().Error(), "they stay at"), "failed attempts and what was undone stay anyway")

	r := removing(WorktreeRemoval{Force: true, DeleteBranch: true})
	assert.NilError(t, r.remove(t.Context()))
	assert.DeepEqual(t, d.history, []string{"remove"})
	assert.Check(t, is.Contains(stderr.String(), `"one\x1b"; they go with branch x`))
	assert.Check(t, is.Contains(stderr.String(), "Keeping refs/ralph/ralph-x/attempts (2 refs): commits of the sandbox that are on no branch\n"))
	assert.Equal(t, len(strings.Fields(gitTree(t, h.Dir, "for-each-ref", "--format=%(refname)", "refs/ralph"))), 3)
	assert.Equal(t, gitTree(t, h.Dir, "branch", "--format=%(refname:short)"), "main")
	_, err = os.Stat(path)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestRemoveWorktreeErrors(t *testing.T) {
	h, _ := treeHost(t)
	path, err := host.AddWorktree(t.Context(), h, host.Worktree{Name: "x"})
	assert.NilError(t, err)
	assert.ErrorContains(t, RemoveWorktree(t.Context(), h, WorktreeRemoval{Name: "y"}), `no worktree "y" in .worktrees`)
	assert.ErrorContains(t, RemoveWorktree(t.Context(), h, WorktreeRemoval{Name: ""}), `no worktree ""`)
	assert.NilError(t, scopes.Section[map[string]string]("container").Write(h.StateDir, "ralph-x", map[string]string{}))
	assert.ErrorContains(t, RemoveWorktree(t.Context(), h, WorktreeRemoval{Name: "x"}), `looking for sandboxes of worktree "x": no engine (container driver)`)
	h.Dir = path
	assert.ErrorContains(t, RemoveWorktree(t.Context(), h, WorktreeRemoval{Name: "x", Force: true}), `worktree "x" is the current directory`)
}

// A linked worktree shares the approvals of the main worktree. A directory with a
// copied .git file does not.
func TestWorktreesShareApprovals(t *testing.T) {
	h, _ := treeHost(t)
	content := []byte("[sandbox.network]\npolicy = \"allow-all\"\n")
	path, err := host.AddWorktree(t.Context(), h, host.Worktree{Name: "x"})
	assert.NilError(t, err)
	forged := t.TempDir()
	dotGit, err := os.ReadFile(filepath.Join(path, ".git"))
	assert.NilError(t, err)
	assert.NilError(t, os.WriteFile(filepath.Join(forged, ".git"), dotGit, 0o600))
	for _, dir := range []string{h.Dir, path} {
		assert.NilError(t, os.WriteFile(filepath.Join(dir, "ralph.toml"), content, 0o600))
	}
	configure := func(dir string) error {
		wt, err := gitrepo.Detect(t.Context(), dir, h.Getenv)
		assert.NilError(t, err)
		_, err = approval.Configure(t.Context(), h, wt, config.Overrides{})
		return err
	}
	var untrusted *config.UntrustedError
	assert.Assert(t, errors.As(configure(path), &untrusted))
	h.Stdout = io.Discard
	assert.ErrorContains(t, approval.Trust(t.Context(), h, false), "refusing to approve without confirmation") // no terminal
	assert.NilError(t, approval.Trust(t.Context(), h, true))
	assert.NilError(t, configure(path))
	_, err = gitrepo.Detect(t.Context(), forged, h.Getenv)
	assert.ErrorContains(t, err, "which belongs to another worktree")
	assert.NilError(t, os.WriteFile(filepath.Join(path, "ralph.toml"), append(content, "[sandbox]\nread_only = false\n"...), 0o600))
	assert.Assert(t, errors.As(configure(path), &untrusted), "another content")
}

// A revocation in any worktree applies to all of them.
func TestRevokeAppliesToAllWorktrees(t *testing.T) {
	h, _ := treeHost(t)
	h.Stdout = io.Discard
	roots := []string{h.Dir}
	for _, name := range []string{"x", "y"} {
		path, err := host.AddWorktree(t.Context(), h, host.Worktree{Name: name})
		assert.NilError(t, err)
		roots = append(roots, path)
	}
	store := config.NewTrustStore(h.StateDir)
	for _, from := range roots {
		var digests []string
		for _, root := range roots {
			assert.NilError(t, os.WriteFile(filepath.Join(root, "ralph.toml"), []byte("[sandbox.network]\npolicy = \"allow-all\"\n"), 0o600))
			h.Dir = root
			assert.NilError(t, approval.Trust(t.Context(), h, true))
			cfg, err := approval.Load(config.Sources{Root: root, UserDir: h.StateDir})
			assert.NilError(t, err)
			digests = append(digests, cfg.PrivilegedDigest())
		}
		h.Dir = from
		assert.NilError(t, approval.Revoke(t.Context(), h))
		for i, root := range roots {
			approved, err := store.Approved(root, digests[i])
			assert.NilError(t, err)
			assert.Check(t, !approved, "%s, from %s", root, from)
		}
	}
}

func TestWorktreeStatusFindsSandbox(t *testing.T) {
	box := func(name, root, branch string) host.Located {
		return host.Located{Sandbox: lifecycle.Sandbox{Name: name, Root: root, State: lifecycle.Running, Scope: gitrepo.Scope{Branch: branch}}}
	}
	boxes := []host.Located{box("other", "/y", "x"), box("old", "/x", "before"), box("new", "/x", "x"), box("older", "/x", "earlier")}
	s := WorktreeStatus{Path: "/x", Branch: "x"}
	s.find(boxes, false)
	assert.Equal(t, s.Sandbox+" "+s.State, "new running")
	s = WorktreeStatus{Path: "/z", Branch: "x"}
	s.find(boxes, false)
	assert.Equal(t, s.Sandbox+" "+s.State, " not found")
	s.find(boxes, true)
	assert.Equal(t, s.State, "unknown")
}
