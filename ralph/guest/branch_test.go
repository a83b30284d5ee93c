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

// Whatever an agent has checked out, Restore switches back and loses nothing.
func TestRestoreSwitchesBack(t *testing.T) {
	for _, tc := range []struct {
		name, agent string
		notes       string // regular expression over all of them; empty for none
		check       string // script that must succeed afterwards
	}{
		{"stays", "echo 2 >a; git commit -qam two; echo 3 >a", "", `test "$(cat a)" = 3; test "$(git log -1 --format=%s)" = two`},
		{
			"another branch", "git checkout -qb other; echo 2 >a; git commit -qam two", "on other$",
			`test "$(cat a)" = 1; test "$(git show other:a)" = 2; test -z "$(git status --porcelain)"`,
		},
		{
			"detached with commits", "git checkout -q --detach; echo 2 >a; git commit -qam two", "on ralph-detached-[0-9a-f]{7}$",
			`test "$(git log -1 --format=%s "$(git branch --list 'ralph-detached-*' --format='%(refname)')")" = two`,
		},
		{"detached without commits", "git checkout -q --detach", "back to branch main$", `test "$(git branch --format='%(refname:short)')" = main`},
		{
			"uncommitted changes are carried over", "git checkout -qb other; echo 2 >a; git commit -qam two; echo 5 >b; echo new >c", "on other$",
			`test "$(cat b)" = 5; test "$(cat c)" = new; test -z "$(git stash list)"`,
		},
		{
			"conflicting changes are stashed", "echo mine >b; git checkout -qb other; echo 2 >a; echo d >d; git add d; git commit -qm two a d; echo 5 >a; echo 6 >d; echo new >c",
			"on other; conflicting uncommitted changes were stashed",
			`test "$(cat a)" = 1; test "$(cat b)" = mine; test "$(cat c)" = new; test ! -e d; test "$(git show stash@{0}:a)" = 5; test "$(git show stash@{0}:d)" = 6`,
		},
		{
			"untracked files in the way", "git rm -q b; git checkout -qb other; git commit -qm without; echo 7 >b", "were stashed",
			`test "$(cat b)" = 1; test "$(git show 'stash@{0}^3:b')" = 7`,
		},
		{
			"names that look like patterns", "git checkout -qb other; echo x >'*'; git add .; git commit -qm star; echo y >'*'; echo 9 >b", "were stashed",
			`test "$(git show 'stash@{0}:*')" = y; test "$(cat b)" = 9; test ! -e '*'`,
		},
		{
			"a merge with conflicts", "git checkout -qb other; echo 2 >a; git commit -qam two; git checkout -qb third main; echo 3 >a; git commit -qam three; git merge -q other || :",
			"on third; conflicting uncommitted", `test "$(cat a)" = 1; test -z "$(git status --porcelain)"; git show stash@{0}:a | grep -q '<<<<<<<'`,
		},
		{
			"a rebase with conflicts", "git checkout -qb other; echo 2 >a; git commit -qam two; git checkout -q main; echo 3 >a; git commit -qam three; git rebase -q other || :",
			"back to branch main", `test "$(cat a)" = 3; test ! -e .git/rebase-merge; test "$(git log -1 --format=%s main)" = three`,
		},
		{
			"renamed", "git branch -m trunk; echo 2 >a; git commit -qam two", "(?s)recreated branch main at [0-9a-f]{7}.*on trunk$",
			`test "$(cat a)" = 1; test "$(git show trunk:a)" = 2`,
		},
		{"deleted", "git checkout -qb other; git branch -qD main", "recreated branch main", `test "$(git rev-parse main)" = "$(git rev-parse other)"`},
		{"deleted under itself", "git update-ref -d refs/heads/main", "^recreated branch main at [0-9a-f]{7}$", `test -z "$(git status --porcelain)"`},
		{
			"hooks that fail", "git checkout -qb other; printf '#!/bin/sh\nexit 1\n' >.git/hooks/post-checkout; chmod +x .git/hooks/post-checkout", "back to branch main",
			"true",
		},
		{"a branch in another worktree", "git checkout -qb other; git worktree add -q ../main-$$ main", "back to branch main", "true"},
		{
			"an orphan", "git checkout -q --orphan pages; git rm -qrf .; echo page >index; git add .; git commit -qm pages", "on pages$",
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

func TestRestoreBranchWithoutCommits(t *testing.T) {
	top, sh := repo(t)
	sh("git checkout -q --orphan empty; git rm -qrf .")
	b := currentBranch(t.Context(), top)
	sh("git checkout -q main; git checkout -qb other; echo 2 >a; git commit -qam two")
	notes, err := b.Restore(t.Context())
	assert.NilError(t, err)
	assert.Assert(t, is.Regexp("on other$", strings.Join(notes, "\n")))
	assert.Equal(t, sh("git symbolic-ref HEAD; cat a"), "refs/heads/empty\n2")
}

func TestRestoreFailureLosesNothing(t *testing.T) {
	top, sh := repo(t)
	b := currentBranch(t.Context(), top)
	sh("git checkout -qb other; echo 2 >a; git commit -qam two; echo 3 >a; touch .git/index.lock")
	_, err := b.Restore(t.Context())
	assert.ErrorContains(t, err, "switching back to branch main: ")
	assert.ErrorContains(t, err, "index.lock")
	assert.Equal(t, sh("cat a; git rev-parse --abbrev-ref HEAD"), "3\nother")
	assert.NilError(t, os.Remove(filepath.Join(top, ".git", "index.lock")))
	_, err = b.Restore(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, sh("cat a; git show stash@{0}:a"), "1\n3")
}

func TestCurrentBranchIsNilWithoutBranch(t *testing.T) {
	top, sh := repo(t)
	sh("git checkout -q --detach")
	assert.Assert(t, currentBranch(t.Context(), top) == nil)
	assert.Assert(t, currentBranch(t.Context(), t.TempDir()) == nil)
}

// A loop that starts with another branch checked out uses the one that the host names.
func TestLoopBranch(t *testing.T) {
	top, sh := repo(t)
	sh("git checkout -qb other")
	for name, want := range map[string]string{"main": "main", "": "other", "gone": "other"} {
		assert.Equal(t, LoopBranch(t.Context(), top, name).Name(), want)
	}
	_, err := LoopBranch(t.Context(), top, "main").Restore(t.Context())
	assert.NilError(t, err)
	assert.Equal(t, sh("git branch --show-current"), "main")
}

func TestRestoreReportsUnusableRepository(t *testing.T) {
	for _, tc := range []struct {
		name, agent string
		private     bool
		err         string
	}{
		{"no git directory", "rm -rf .git", true, "finding the git directory"},
		{"empty git directory", "rm -rf .git/*", true, "reading the current branch"},
		{"bare", "git config core.bare true", true, "git directory is not that of the working tree: see core.bare and core.worktree"},
		{"another working tree", "git config core.worktree /", true, "git directory is not that of the working tree"},
		{"named pipe", "rm .git/HEAD; mkfifo .git/HEAD", true, "git directory has a named pipe: HEAD"},
		{"broken index", "echo garbage >.git/index", false, "reading git's index"},
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

// Killed processes leave locks. The user's may be in use.
func TestRestoreRemovesStaleLocks(t *testing.T) {
	for _, tc := range []struct {
		private bool
		other   string
		left    int
	}{{private: true}, {private: true, other: "ralph shell", left: 3}, {left: 3}} {
		top, sh := repo(t)
		sh("touch .git/index.lock .git/HEAD.lock .git/refs/heads/main.lock")
		b := currentBranch(t.Context(), top)
		b.Private, b.others = tc.private, func() string { return tc.other }
		_, err := b.Restore(t.Context())
		if tc.other != "" {
			assert.Error(t, err, "git repository is locked by a stale HEAD.lock")
		} else {
			assert.NilError(t, err)
		}
		locks, _ := leftovers(filepath.Join(top, ".git"))
		assert.Equal(t, len(locks), tc.left)
	}
}

// Where git reads, it fails instead of waiting.
func TestNamedPipesInTheGitDirectory(t *testing.T) {
	for _, file := range []string{"HEAD", "config", "index", "packed-refs", "objects/info/alternates"} {
		top, sh := repo(t)
		b := currentBranch(t.Context(), top)
		b.Private = true
		sh("rm -f .git/" + file + "; mkfifo .git/" + file)
		_, err := b.Restore(t.Context())
		assert.Error(t, err, "git directory has a named pipe: "+file)
		if file != "objects/info/alternates" { // which only prints an error
			sh("! git status")
		}
	}
}

func TestRestoreGrantsPermissions(t *testing.T) {
	top, sh := repo(t)
	b := currentBranch(t.Context(), top)
	b.Private = true
	sh("find .git -depth -exec chmod a-rwx {} +")
	_, err := b.Restore(t.Context())
	assert.NilError(t, err)
	modes := sh("stat -c %a .git .git/HEAD .git/index .git/logs .git/logs/HEAD .git/objects/* | sort -u")
	assert.Equal(t, modes, "600\n700")
}
