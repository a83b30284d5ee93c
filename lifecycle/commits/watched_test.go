package commits

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// Files that decide what runs on the host are reported once when they have changed: by a command, and
// by what an earlier one has left in the sandbox.
func TestChangedFilesOfTheHostAreReportedOnce(t *testing.T) {
	const hooksHint = "Hint: check them before you use git here: even git status can run hooks\n"
	for _, tc := range []struct {
		name, path    string
		direct        bool
		during, later string
	}{
		{"a hook", ".husky/_/pre-commit", false, "Warning: hooks in the worktree have changed: HERE/.husky/_/pre-commit\n" + hooksHint, "Warning: hooks in the worktree have changed since the last command: HERE/.husky/_/pre-commit\n" + hooksHint},
		{"what husky runs", ".husky/pre-push", true, "Warning: hooks in the worktree have changed: HERE/.husky/pre-push\n" + hooksHint, "Warning: hooks in the worktree have changed since the last command: HERE/.husky/pre-push\n" + hooksHint},
		{"a hook of git", ".git/hooks/pre-commit", true, "Warning: hooks in the worktree have changed: HERE/.git/hooks/pre-commit\n" + hooksHint, "Warning: hooks in the worktree have changed since the last command: HERE/.git/hooks/pre-commit\n" + hooksHint},
		{"a hook of git that no agent can write", ".git/hooks/pre-commit", false, "", ""},
		{"the settings", "ralph.toml", false, "Warning: ralph.toml has changed\n", "Note: ralph.toml has changed since the last command\n"},
		{"another file", "main.go", true, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wt, _ := repository(t)
			out, err := exec.CommandContext(t.Context(), "git", "-C", wt.Root, "config", "core.hooksPath", ".husky/_").CombinedOutput()
			assert.NilError(t, err, "%s", out)
			wt.Config = nil
			var said bytes.Buffer
			h := host.Host{StateDir: t.TempDir(), Stderr: &said}
			path := filepath.Join(wt.Root, tc.path)
			write := func(content string) {
				t.Helper()
				assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				assert.NilError(t, os.WriteFile(path, []byte(content), 0o755))
			}
			reports := func(want string) {
				t.Helper()
				assert.Equal(t, string(bytes.ReplaceAll(said.Bytes(), []byte(wt.Root), []byte("HERE"))), want)
				said.Reset()
			}

			w := Watch(t.Context(), h, wt, "ralph-test", tc.direct)
			write("new")
			w.Report(t.Context(), false) // in the background
			reports(tc.during)
			w.Report(t.Context(), true)
			reports(tc.during)
			w.Report(t.Context(), true)
			reports("")

			write("left behind")
			w = Watch(t.Context(), h, wt, "ralph-test", tc.direct)
			reports(tc.later)
			w.Report(t.Context(), true)
			reports("")
			write("left behind")
			Watch(t.Context(), h, wt, "ralph-test", tc.direct)
			reports("")
		})
	}
}

// A sandbox with another workspace has changed no hook.
func TestHooksOfAnotherWorkspaceAreNoChange(t *testing.T) {
	wt, _ := repository(t)
	hook := filepath.Join(wt.CommonDir, "hooks", "pre-commit")
	assert.NilError(t, os.MkdirAll(filepath.Dir(hook), 0o755))
	assert.NilError(t, os.WriteFile(hook, nil, 0o755))
	var said bytes.Buffer
	h := host.Host{StateDir: t.TempDir(), Stderr: &said}
	for _, live := range []bool{true, false, true} {
		said.Reset()
		Watch(t.Context(), h, wt, "ralph-test", live).Report(t.Context(), true)
		assert.Equal(t, strings.Contains(said.String(), "Note: your commit hooks do not run"), !live)
		assert.Assert(t, !strings.Contains(said.String(), "changed"), said.String())
	}
	assert.NilError(t, os.WriteFile(hook, []byte("other"), 0o755))
	Watch(t.Context(), h, wt, "ralph-test", true)
	assert.Assert(t, strings.Contains(said.String(), "hooks in the worktree have changed since the last command: "+hook), said.String())
}

func TestHooksOfAMovedWorktreeAreNoChange(t *testing.T) {
	wt, _ := repository(t)
	moved := wt
	moved.Root = wt.Root + "-moved"
	moved.CommonDir, moved.GitDir = filepath.Join(moved.Root, ".git"), filepath.Join(moved.Root, ".git")
	moved.Config = nil
	for _, path := range []string{filepath.Join(wt.CommonDir, "hooks", "pre-commit"), filepath.Join(wt.Root, "ralph.toml")} {
		assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		assert.NilError(t, os.WriteFile(path, nil, 0o755))
	}
	var said bytes.Buffer
	h := host.Host{StateDir: t.TempDir(), Stderr: &said}
	Watch(t.Context(), h, wt, "ralph-test", true)
	assert.NilError(t, os.Rename(wt.Root, moved.Root))
	Watch(t.Context(), h, moved, "ralph-test", true)
	assert.Equal(t, said.String(), "")
	hook := filepath.Join(moved.CommonDir, "hooks", "pre-commit")
	assert.NilError(t, os.WriteFile(hook, []byte("other"), 0o755))
	Watch(t.Context(), h, moved, "ralph-test", true)
	assert.Assert(t, strings.Contains(said.String(), "hooks in the worktree have changed since the last command: "+hook), said.String())
}

// A removed hook checks nothing any more, and a link in the git directory runs what it leads to.
func TestRemovedAndLinkedHooksAreReported(t *testing.T) {
	wt, _ := repository(t)
	script, link := filepath.Join(wt.Root, "check.sh"), filepath.Join(wt.CommonDir, "hooks", "pre-push")
	assert.NilError(t, os.MkdirAll(filepath.Dir(link), 0o755))
	assert.NilError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755))
	assert.NilError(t, os.Symlink("../../check.sh", link))
	var said bytes.Buffer
	h := host.Host{StateDir: t.TempDir(), Stderr: &said}
	for _, change := range []func() error{
		func() error { return os.WriteFile(script, []byte("#!/bin/sh\nother\n"), 0o755) },
		func() error { return os.Chmod(script, 0o644) },
		func() error { return os.Remove(script) },
		func() error { return os.WriteFile(script, nil, 0o755) },
	} {
		w := Watch(t.Context(), h, wt, "ralph-test", false)
		said.Reset()
		assert.NilError(t, change())
		w.Report(t.Context(), true)
		assert.Assert(t, bytes.Contains(said.Bytes(), []byte("hooks in the worktree have changed: "+link)), said.String())
	}

	out, err := exec.CommandContext(t.Context(), "git", "-C", wt.Root, "config", "core.hooksPath", ".hooks").CombinedOutput()
	assert.NilError(t, err, "%s", out)
	wt.Config = nil
	hook := filepath.Join(wt.Root, ".hooks", "pre-commit")
	assert.NilError(t, os.MkdirAll(filepath.Dir(hook), 0o755))
	assert.NilError(t, os.WriteFile(hook, nil, 0o755))
	w := Watch(t.Context(), h, wt, "ralph-test", false)
	said.Reset()
	assert.NilError(t, os.RemoveAll(filepath.Dir(hook)))
	w.Report(t.Context(), true)
	assert.Assert(t, bytes.Contains(said.Bytes(), []byte("hooks in the worktree have changed: "+hook)), said.String())
}

// Hooks of the user's git are not in the sandbox's, which is said before the first run.
func TestCommitHooksAreNamedOnce(t *testing.T) {
	const hint = "Hint: list what they check under [checks] in ralph.toml\n"
	for _, tc := range []struct {
		name, path, hooksPath string
		mode                  os.FileMode
		direct                bool
		want                  string
	}{
		{"of git", ".git/hooks/pre-commit", "", 0o755, false, "Note: your commit hooks do not run in the sandbox: pre-commit\n" + hint},
		{"of husky", ".husky/_/commit-msg", ".husky/_", 0o755, false, "Note: your commit hooks do not run in the sandbox: commit-msg\n" + hint},
		{"of git, unused", ".git/hooks/pre-commit", ".husky/_", 0o755, false, ""},
		{"not executable", ".git/hooks/pre-commit", "", 0o644, false, ""},
		{"a sample", ".git/hooks/pre-commit.sample", "", 0o755, false, ""},
		{"for a push", ".git/hooks/pre-push", "", 0o755, false, ""},
		{"in the shared git directory", ".git/hooks/pre-commit", "", 0o755, true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wt, _ := repository(t)
			if tc.hooksPath != "" {
				out, err := exec.CommandContext(t.Context(), "git", "-C", wt.Root, "config", "core.hooksPath", tc.hooksPath).CombinedOutput()
				assert.NilError(t, err, "%s", out)
			}
			wt.Config = nil
			path := filepath.Join(wt.Root, tc.path)
			assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			assert.NilError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), tc.mode))
			var said bytes.Buffer
			h := host.Host{StateDir: t.TempDir(), Stderr: &said}

			Watch(t.Context(), h, wt, "ralph-test", tc.direct)
			assert.Equal(t, said.String(), tc.want)
			said.Reset()
			Watch(t.Context(), h, wt, "ralph-test", tc.direct)
			assert.Equal(t, said.String(), "")
		})
	}
}
