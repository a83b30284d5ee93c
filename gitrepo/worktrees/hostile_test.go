package worktrees

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

// Listing, inspecting, adding and removing worktrees run nothing that an agent has
// left in one, even if a submodule of its own is on the branch there.
func TestNoProgramOfAWorktreeIsRun(t *testing.T) {
	root := newRoot(t)
	tree := add(t, open(t, root), "x", "x")
	marker := filepath.Join(t.TempDir(), "marker")
	run := "touch " + marker + "; false"
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@y"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		assert.NilError(t, err, "%s", out)
	}
	inner := filepath.Join(tree.Path, "inner")
	git(tree.Path, "init", "-q", "inner")
	assert.NilError(t, os.WriteFile(filepath.Join(inner, "file"), nil, 0o644))
	git(inner, "add", "-A")
	git(inner, "commit", "-q", "-m", "x")
	git(tree.Path, "add", "inner")
	git(tree.Path, "commit", "-q", "-m", "submodule")
	hook := filepath.Join(inner, "hooks", "post-checkout")
	assert.NilError(t, os.Mkdir(filepath.Dir(hook), 0o755))
	assert.NilError(t, os.WriteFile(hook, []byte("#!/bin/sh\n"+run+"\n"), 0o755))
	git(inner, "config", "core.fsmonitor", run)
	git(root, "config", "core.hooksPath", filepath.Dir(hook))
	git(root, "config", "core.fsmonitor", run)
	_ = os.Remove(marker)

	r := open(t, root)
	at := find(t, r, "x")
	_, err := r.Status(t.Context(), at)
	assert.NilError(t, err)
	_, _, err = r.Unmerged(t.Context(), at, 5)
	assert.NilError(t, err)
	_, err = r.Stray(t.Context(), "refs/ralph/y", nil)
	assert.NilError(t, err)
	_ = add(t, r, "y", "x2")
	assert.NilError(t, r.Remove(t.Context(), at))
	assert.NilError(t, r.DeleteBranch(t.Context(), "x"))
	_, err = os.Stat(marker)
	assert.Assert(t, os.IsNotExist(err), "something was run")
}

// Filters that a configuration has in the new worktree only are not run either.
func TestNoConditionalFilterIsRun(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "marker")
	for _, condition := range []string{"onbranch:other", "gitdir:**/worktrees/other", "gitdir/i:**/WORKTREES/**"} {
		root := newRoot(t)
		gitDir := filepath.Join(root, ".git")
		for path, content := range map[string]string{
			"filters":         "[filter \"x\"]\n\tsmudge = touch " + marker + "; false\n\trequired = true\n",
			"info/attributes": "* filter=x\n",
		} {
			assert.NilError(t, os.WriteFile(filepath.Join(gitDir, path), []byte(content), 0o644))
		}
		cmd := exec.Command("git", "config", "includeIf."+condition+".path", "filters")
		cmd.Dir = root
		assert.NilError(t, cmd.Run())
		tree := add(t, open(t, root), "other", "other")
		_, err := os.Stat(filepath.Join(tree.Path, "first"))
		assert.NilError(t, err)
		_, err = os.Stat(marker)
		assert.Assert(t, os.IsNotExist(err), condition)
	}
}

// The user is told which files a new worktree has as they are committed.
func TestUnfilteredFilesOfANewWorktree(t *testing.T) {
	root := newRoot(t)
	for _, args := range [][]string{
		{"config", "filter.lfs.process", "git-lfs filter-process"},
		{"config", "filter.unused.smudge", "cat"},
		{"config", "filter._x.1.smudge", "cat"},
		{"add", "-A"},
		{"-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "-m", "attributes"},
	} {
		assert.NilError(t, os.WriteFile(filepath.Join(root, ".gitattributes"), []byte("*.bin filter=lfs -text\n*.other filter=unused\n.gitattributes filter=_x.1\n"), 0o644))
		assert.NilError(t, os.WriteFile(filepath.Join(root, "x.bin"), []byte("pointer\n"), 0o644))
		cmd := exec.Command("git", append([]string{"-c", "filter.lfs.process="}, args...)...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		assert.NilError(t, err, "%s", out)
	}
	r := open(t, root)
	filters, err := r.Unfiltered(t.Context(), add(t, r, "x", "x"))
	assert.NilError(t, err)
	assert.DeepEqual(t, filters, []string{"_x.1", "lfs"})
}
