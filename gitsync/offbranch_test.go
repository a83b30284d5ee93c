package gitsync

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// A commit that a run has made outside of the user's branch is there until that has its changes, or its ref
// is deleted. The hint is safe whatever the commit has.
func TestOffBranch(t *testing.T) {
	t.Parallel()
	const side = "refs/ralph/ralph-test/side"
	merge := []string{`merge them with "git merge refs/ralph/ralph-test/side", or discard them with "git update-ref -d refs/ralph/ralph-test/side"`}
	for _, tc := range []struct {
		name     string
		agent    func(w *fixture) // on the sandbox's branch side
		user     func(w *fixture) // after the fetch
		why, ref string
		hints    []string
	}{
		{name: "only there", why: "a run has committed outside of your branch main: its commits are at " + side, ref: side, hints: merge},
		{name: "merged", user: func(w *fixture) { w.git("merge", "-q", "-m", "m", side) }},
		{name: "picked", user: func(w *fixture) {
			w.git("commit", "-q", "--allow-empty", "-m", "user's")
			w.git("cherry-pick", side+"~", side)
		}},
		{name: "squashed", user: func(w *fixture) {
			w.git("merge", "-q", "--squash", side)
			w.git("commit", "-q", "-m", "squashed")
		}},
		{name: "one of two picked", user: func(w *fixture) { w.git("cherry-pick", side) }, why: "outside of your branch main", ref: side, hints: merge},
		{name: "discarded", user: func(w *fixture) { w.git("update-ref", "-d", side) }},
		{name: "elsewhere, too", user: func(w *fixture) { w.git("branch", "copy", side) }, why: "outside of your branch main", ref: side, hints: merge},
		{name: "on a branch of the user only", user: func(w *fixture) {
			w.git("branch", "copy", side)
			w.git("update-ref", "-d", side)
		}},
		{
			name: "another branch is checked out", user: func(w *fixture) { w.git("switch", "-q", "-c", "mine") }, why: "outside of your branch main", ref: side,
			hints: []string{`change to it with "git switch main", then ` + merge[0]},
		},
		{
			name: "an orphan", agent: func(w *fixture) {
				w.sandboxGit("update-ref", "refs/heads/side", w.sandboxGit("commit-tree", "-m", "orphan", "HEAD^{tree}"))
			}, why: "outside of your branch main", ref: side, hints: merge,
		},
		{
			name: "a submodule", agent: func(w *fixture) {
				w.sandboxGit("update-index", "--add", "--cacheinfo", "160000,"+w.tip("main")+",inner")
				w.sandboxGit("commit", "-q", "-m", "inner")
			}, why: `the submodule "inner"`, ref: "refs/ralph/ralph-test/@submodule/side",
			hints: []string{`do not merge them or check them out: view them with "git log -p --submodule=short refs/ralph/ralph-test/@submodule/side"; remove the submodule from all of them in "docker ralph shell", or leave them there and reopen their tasks with --recreate`},
		},
		{
			name: "refused", agent: func(w *fixture) { w.sandboxGit("reset", "-q", "--soft", w.badCommit()) },
			why: "commits outside of your branch main were not fetched: verifying the commits",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newSandbox(t)
			w.sandboxGit("switch", "-q", "-c", "side")
			w.commit("x.txt", "x\n")
			w.commit("y.txt", "y\n")
			if tc.agent != nil {
				tc.agent(w)
			}
			commit := w.sandboxGit("rev-parse", "side")
			w.fetch()
			if tc.user != nil {
				tc.user(w)
			}
			wt, err := gitrepo.Detect(t.Context(), w.root, func(name string) string { return map[string]string{"RALPH_SCOPE_REPO": "a/b"}[name] })
			assert.NilError(t, err)

			u, err := OffBranch(t.Context(), wt, w.repo.stateDir, w.repo.name, "main", []string{w.tip("main"), commit, "garbage"})

			assert.NilError(t, err)
			assert.Equal(t, u != nil, tc.why != "", "%+v", u)
			if u != nil {
				assert.Check(t, is.Contains(u.Why, tc.why))
				assert.Check(t, u.OffBranch)
				assert.Equal(t, u.Ref, tc.ref)
				assert.DeepEqual(t, u.Hints, tc.hints)
			}
		})
	}
}
