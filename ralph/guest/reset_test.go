package guest

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// What a run has committed is gone from the worktree; what was there before it stays.
func TestReset(t *testing.T) {
	for _, tc := range []struct{ name, user, agent, notes, check string }{
		{"commits", "", "echo 2 >a; echo n >n; git add .; git commit -qm two; git rm -q b; git commit -qm three", "", `test "$(cat a b)" = "$(printf '1\n1')"; test ! -e n`},
		{"nothing", "", "true", "", "true"},
		{"other changes stay", "echo u >mine; echo 5 >b; git add b", "echo 2 >a; git commit -qm two a", "", `test "$(cat mine b a)" = "$(printf 'u\n5\n1')"; git status --porcelain | grep -q '^M  b'`},
		{"ignored files stay", "echo out >.git/info/exclude", "echo 2 >a; git commit -qam two; echo o >out", "", `test "$(cat out)" = o`},
		{"a conflicting change", "echo u >mine", "echo 2 >a; git commit -qam two; echo 3 >a", "were stashed", `test "$(cat a mine)" = "$(printf '1\nu')"; test "$(git show stash@{0}:a)" = 3`},
		{"an untracked file in the way", "", "git rm -q --cached a; git commit -qm two; echo 3 >a", "were stashed", `test "$(cat a)" = 1; test "$(git show 'stash@{0}^3:a')" = 3`},
		{"a repository in a subdirectory", "", "mkdir app; git init -q app; git -C app -c user.name=a -c user.email=a commit -q --allow-empty -m s; git add app 2>/dev/null; git commit -qm two", "", `test -d app/.git; test "$(git status --porcelain)" = "?? app/"`},
		{"a rewritten branch", "", "git commit -q --amend -m other", "", "true"},
		{"an unresolved merge", "", "git checkout -qb o; echo 2 >a; git commit -qam o; git checkout -q main; echo 3 >a; git commit -qam t; git merge -q o || :", "were stashed", `test "$(cat a)" = 1`},
		{"half-way", "", "echo 2 >a; git commit -qam two; git read-tree -m -u HEAD HEAD~", "", `test "$(cat a)" = 1`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			top, sh := repo(t)
			start := sh("git rev-parse HEAD")
			sh(tc.user + "\n")
			b := currentBranch(t.Context(), top)
			sh(tc.agent)
			notes, err := b.Reset(t.Context(), start)
			assert.NilError(t, err)
			assert.Check(t, is.Contains(strings.Join(notes, "\n"), tc.notes))
			assert.Equal(t, len(notes) > 0, tc.notes != "")
			assert.Equal(t, sh("git rev-parse HEAD; git symbolic-ref HEAD"), start+"\nrefs/heads/main")
			sh(tc.check)
			sh("git update-ref -d refs/heads/main")
			_, err = b.Restore(t.Context())
			assert.NilError(t, err)
			assert.Equal(t, sh("git rev-parse main"), start, "it is the last known commit")
		})
	}
}

func TestResetToNoCommit(t *testing.T) {
	top, sh := repo(t)
	sh("git checkout -q --orphan empty; git rm -qrf .; echo u >mine")
	b := currentBranch(t.Context(), top)
	sh("echo n >n; git add n; git commit -qm first")
	_, err := b.Reset(t.Context(), "")
	assert.NilError(t, err)
	assert.Equal(t, sh("git symbolic-ref HEAD; git status --porcelain; git rev-parse -q --verify HEAD || echo none"), "refs/heads/empty\n?? mine\nnone")
}

func TestResetFails(t *testing.T) {
	top, sh := repo(t)
	b := currentBranch(t.Context(), top)
	start := sh("git rev-parse HEAD; echo 2 >a; git commit -qam two; touch .git/index.lock")
	_, err := b.Reset(t.Context(), start)
	assert.ErrorContains(t, err, "resetting branch main to "+start[:7]+": ")
	assert.Equal(t, sh("cat a; git log -1 --format=%s"), "2\ntwo")
}
