package guest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// repo is a repository on main with two files, and sh runs scripts in it.
func repo(t *testing.T) (top string, sh func(script string) string) {
	t.Helper()
	top = t.TempDir()
	sh = func(script string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
		cmd.Dir = top
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@e", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@e")
		out, err := cmd.CombinedOutput()
		assert.NilError(t, err, "%s\n%s", script, out)
		return strings.TrimSpace(string(out))
	}
	sh("git init -q -b main; git config user.name a; git config user.email a@e; echo 1 >a; echo 1 >b; git add .; git commit -qm start")
	return top, sh
}

// Whatever an agent leaves checked out, the worktree is back on its branch, and
// nothing is lost.
func TestRestore(t *testing.T) {
	for _, tc := range []struct {
		name, agent string
		notes       string // regular expression over all of them; empty for none
		// check is a script that has to succeed afterwards.
		check string
	}{
		{"stays", "echo 2 >a; git commit -qam two; echo 3 >a", "", `test "$(cat a)" = 3; test "$(git log -1 --format=%s)" = two`},
		{
			"another branch", "git checkout -qb other; echo 2 >a; git commit -qam two", "on other stay there$",
			`test "$(cat a)" = 1; test "$(git show other:a)" = 2; test -z "$(git status --porcelain)"`,
		},
		{
			"detached with commits", "git checkout -q --detach; echo 2 >a; git commit -qam two", "on ralph-detached-[0-9a-f]{7} stay there$",
			`test "$(git log -1 --format=%s "$(git branch --list 'ralph-detached-*' --format='%(refname)')")" = two`,
		},
		{"detached without commits", "git checkout -q --detach", "back on branch main$", `test "$(git branch --format='%(refname:short)')" = main`},
		{
			"uncommitted changes come along", "git checkout -qb other; echo 2 >a; git commit -qam two; echo 5 >b; echo new >c", "on other stay there$",
			`test "$(cat b)" = 5; test "$(cat c)" = new; test -z "$(git stash list)"`,
		},
		{
			"conflicting changes are stashed", "echo mine >b; git checkout -qb other; echo 2 >a; echo d >d; git add d; git commit -qm two a d; echo 5 >a; echo 6 >d; echo new >c",
			"on other stay there; uncommitted changes that conflict with it are stashed",
			`test "$(cat a)" = 1; test "$(cat b)" = mine; test "$(cat c)" = new; test ! -e d; test "$(git show stash@{0}:a)" = 5; test "$(git show stash@{0}:d)" = 6`,
		},
		{
			"untracked files in the way", "git rm -q b; git checkout -qb other; git commit -qm without; echo 7 >b", "are stashed",
			`test "$(cat b)" = 1; test "$(git show 'stash@{0}^3:b')" = 7`,
		},
		{
			"names that look like patterns", "git checkout -qb other; echo x >'*'; git add .; git commit -qm star; echo y >'*'; echo 9 >b", "are stashed",
			`test "$(git show 'stash@{0}:*')" = y; test "$(cat b)" = 9; test ! -e '*'`,
		},
		{
			"a merge with conflicts", "git checkout -qb other; echo 2 >a; git commit -qam two; git checkout -qb third main; echo 3 >a; git commit -qam three; git merge -q other || :",
			"on third stay there; uncommitted", `test "$(cat a)" = 1; test -z "$(git status --porcelain)"; git show stash@{0}:a | grep -q '<<<<<<<'`,
		},
		{
			"a rebase with conflicts", "git checkout -qb other; echo 2 >a; git commit -qam two; git checkout -q main; echo 3 >a; git commit -qam three; git rebase -q other || :",
			"back on branch main", `test "$(cat a)" = 3; test ! -e .git/rebase-merge; test "$(git log -1 --format=%s main)" = three`,
		},
		{
			"renamed", "git branch -m trunk; echo 2 >a; git commit -qam two", "(?s)The branch main was gone: it is back at [0-9a-f]{7}.*on trunk stay there$",
			`test "$(cat a)" = 1; test "$(git show trunk:a)" = 2`,
		},
		{"deleted", "git checkout -qb other; git branch -qD main", "The branch main was gone", `test "$(git rev-parse main)" = "$(git rev-parse other)"`},
		{"deleted under itself", "git update-ref -d refs/heads/main", "^The branch main was gone: it is back at [0-9a-f]{7}$", `test -z "$(git status --porcelain)"`},
		{
			"hooks that fail", "git checkout -qb other; printf '#!/bin/sh\nexit 1\n' >.git/hooks/post-checkout; chmod +x .git/hooks/post-checkout", "back on branch main",
			"true",
		},
		{"a branch in another worktree", "git checkout -qb other; git worktree add -q ../main-$$ main", "back on branch main", "true"},
		{
			"an orphan", "git checkout -q --orphan pages; git rm -qrf .; echo page >index; git add .; git commit -qm pages", "on pages stay there$",
			`test "$(cat a)" = 1; test ! -e index; test "$(git show pages:index)" = page`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			top, sh := repo(t)
			b := currentBranch(t.Context(), top)
			sh(tc.agent)
			notes, err := b.Restore(t.Context())
			assert.NilError(t, err)
			if tc.notes == "" {
				assert.Equal(t, len(notes), 0, "%q", notes)
			} else {
				assert.Assert(t, is.Regexp(tc.notes, strings.Join(notes, "\n")))
			}
			assert.Equal(t, sh("git symbolic-ref --short HEAD"), "main")
			sh(tc.check)
			notes, err = b.Restore(t.Context())
			assert.NilError(t, err)
			assert.Equal(t, len(notes), 0)
		})
	}
}

func TestRestoreOfABranchWithoutCommits(t *testing.T) {
	top, sh := repo(t)
	sh("git checkout -q --orphan empty; git rm -qrf .")
	b := currentBranch(t.Context(), top)
	sh("git checkout -q main; git checkout -qb other; echo 2 >a; git commit -qam two")
	notes, err := b.Restore(t.Context())
	assert.NilError(t, err)
	assert.Assert(t, is.Regexp("on other stay there$", strings.Join(notes, "\n")))
	assert.Equal(t, sh("git symbolic-ref HEAD; cat a"), "refs/heads/empty\n2")
}

// What keeps the branch from being checked out is said, and everything stays.
func TestRestoreThatCannotBe(t *testing.T) {
	top, sh := repo(t)
	b := currentBranch(t.Context(), top)
	sh("git checkout -qb other; echo 2 >a; git commit -qam two; echo 3 >a; touch .git/index.lock")
	_, err := b.Restore(t.Context())
	assert.ErrorContains(t, err, "checking the branch main out again: ")
	assert.ErrorContains(t, err, "index.lock")
	assert.Equal(t, sh("cat a; git rev-parse --abbrev-ref HEAD"), "3\nother")
	assert.NilError(t, os.Remove(filepath.Join(top, ".git", "index.lock")))
	_, err = b.Restore(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, sh("cat a; git show stash@{0}:a"), "1\n3")
}

func TestNoBranchNoRestore(t *testing.T) {
	top, sh := repo(t)
	sh("git checkout -q --detach")
	assert.Assert(t, currentBranch(t.Context(), top) == nil)
	assert.Assert(t, currentBranch(t.Context(), t.TempDir()) == nil)
}

// A loop that begins while something else is checked out belongs to the branch that
// the host has named.
func TestHome(t *testing.T) {
	top, sh := repo(t)
	sh("git checkout -qb other")
	for name, want := range map[string]string{"main": "main", "": "other", "gone": "other"} {
		assert.Equal(t, HomeBranch(t.Context(), top, name).Name(), want)
	}
	_, err := HomeBranch(t.Context(), top, "main").Restore(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, sh("git branch --show-current"), "main")
}

// An agent that leaves git so that nobody can commit is reported: the next one
// would fail as well.
func TestRestoreReportsABrokenGit(t *testing.T) {
	for _, tc := range []struct {
		name, agent string
		private     bool
		err         string
	}{
		{"no git directory", "rm -rf .git", true, "reading the current branch"},
		{"broken index", "echo garbage >.git/index", false, "reading git's index"},
		{"lock", "touch .git/index.lock", true, "git is locked by index.lock"},
		{"lock that may be the user's", "touch .git/index.lock", false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			top, sh := repo(t)
			b := currentBranch(t.Context(), top)
			b.Private = tc.private
			sh(tc.agent)
			_, err := b.Restore(t.Context())
			if tc.err == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.err)
		})
	}
}
