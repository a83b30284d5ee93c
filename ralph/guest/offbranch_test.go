package guest

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// What a run commits elsewhere is found after it, and still has a branch.
func TestOffBranchFindsCommitsOfTheRun(t *testing.T) {
	const commit = "echo x >x; git add x; git commit -qm run; "
	for _, tc := range []struct {
		name, agent string
		named       string // by the agent, as the output of this script
		live        bool
		want        string // the subjects
	}{
		{name: "nothing", agent: "true"},
		{name: "on the branch", agent: commit, named: "git rev-parse HEAD"},
		{name: "another branch", agent: "git checkout -qb other; " + commit, named: "git rev-parse --short other", want: "run"},
		{name: "left again", agent: "git checkout -qb other; " + commit + "git checkout -q main", want: "run"},
		{name: "a branch of an earlier run", agent: "git checkout -q earlier; " + commit, want: "run"},
		{name: "detached", agent: "git checkout -q --detach; " + commit, want: "run"},
		{name: "an orphan", agent: "git checkout -q --orphan pages; " + commit, want: "run"},
		{name: "the branch is renamed", agent: "git branch -m trunk; " + commit, want: "run"},
		{name: "merged", agent: "git checkout -qb other; " + commit + "git checkout -q main; git merge -q other", named: "git rev-parse other"},
		{name: "squashed", agent: "git checkout -qb other; " + commit + "echo y >y; git add y; git commit -qm more; git checkout -q main; git merge -q --squash other; git commit -qm squashed"},
		{name: "picked", agent: "git checkout -qb other; " + commit + "git checkout -q main; git commit -q --allow-empty -m main; git cherry-pick other"},
		{name: "rebased", agent: "git checkout -qb other; " + commit + "git branch old; git checkout -q main; git commit -q --allow-empty -m main; git rebase -q main other; git checkout -q main; git merge -q other"},
		{name: "one of two picked", agent: "git checkout -qb other; echo y >y; git add y; git commit -qm first; " + commit + "git checkout -q main; git cherry-pick other", want: "run"},
		{name: "a branch named like an attempt", agent: "git checkout -q --detach; " + commit + "git update-ref refs/heads/ralph-attempts/a/1 HEAD; git checkout -q main", want: "run"},
		{name: "a branch without commits", agent: "git branch other; git branch another earlier"},
		{name: "named, and its branch deleted", agent: "git checkout -qb other; " + commit + "git checkout -q main; git branch -qD other", named: "git rev-parse HEAD@{1}", want: "run"},
		{name: "names no commit", agent: "true", named: "echo deadbeef; echo --all"},
		{name: "a new repository", agent: "rm -rf .git; git init -q -b master; git config user.name a; git config user.email a@e; " + commit, want: "run"},
		{name: "live, another branch", agent: "git checkout -qb other; " + commit, live: true, want: "run"},
		{name: "live, the user's other worktree", agent: "git worktree add -q wt -b mine; cd wt; " + commit, live: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			top, sh := repo(t)
			sh("git checkout -qb earlier; echo e >e; git add e; git commit -qm earlier; git checkout -q main")
			b := currentBranch(t.Context(), top)
			b.Private = !tc.live
			find, err := b.OffBranch(t.Context())
			assert.NilError(t, err)
			sh(tc.agent)
			var named []string
			if tc.named != "" {
				named = strings.Fields(sh(tc.named))
			}
			_, restoreErr := b.Restore(t.Context())
			assert.Equal(t, restoreErr != nil, tc.name == "a new repository")

			found, err := find(t.Context(), named)

			assert.NilError(t, err)
			var subjects []string
			for _, id := range found {
				subjects = append(subjects, sh("git log -1 --format=%s "+id))
				assert.Assert(t, sh("git branch --contains "+id) != "")
			}
			assert.Equal(t, strings.Join(subjects, " "), tc.want)
		})
	}
}
