package gitsync

import (
	"testing"

	"gotest.tools/v3/assert"
)

// What only a sandbox has is neither what the user has, too, nor what a fetch brings.
func TestOnlyInside(t *testing.T) {
	t.Parallel()
	c := newRepo(t).fillSandbox()
	c.write(".gitignore", "node_modules/\n*.log\n.env\n/data/\n")
	c.git("add", "-A")
	c.git("commit", "-qm", "ignore")
	c.write(".env", "x\n")
	c.write("data/mine", "x\n")
	c.start()
	c.inSandbox(`mkdir -p data/more; touch data/mine data/results.csv data/more/1 data/more/2; mkdir -p node_modules/a tool .ralph/logs "odd
name"; echo '*' >.ralph/.gitignore; touch node_modules/a/b .ralph/logs/x .env new.txt "odd
name/x.log"; echo committed >c.txt; git add c.txt; git commit -qm c; cd tool; unset GIT_DIR GIT_WORK_TREE; git init -q; git commit -q --allow-empty -m x`)
	paths, err := c.repo.OnlyInside(t.Context(), c.sh)
	assert.NilError(t, err)
	assert.DeepEqual(t, paths, []string{"node_modules/", "odd\nname/", "tool/", "data/more/", "data/results.csv"})
}

// The worktrees of an agent are not in its commits. Their branches are fetched, and what is not committed there is
// named before the sandbox goes.
func TestWorktreesOfAnAgent(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.inSandbox(`git worktree add -q -b one .worktrees/one; git worktree add -q -b two .claude/worktrees/two
unset GIT_DIR GIT_WORK_TREE; cd .worktrees/one; echo x > x; git add -A; git commit -qm one; touch y`)
	w.inSandbox("echo agent > b.txt; git add -A; git commit -qm agent")
	res := w.fetch()
	assert.Equal(t, res.Commits, 1)
	assert.Equal(t, w.git("diff", "--name-only", "HEAD~"), "b.txt")
	assert.Equal(t, w.git("show", res.Others["refs/heads/one"]+":x"), "x")
	paths, err := w.repo.OnlyInside(t.Context(), w.sh)
	assert.NilError(t, err)
	assert.DeepEqual(t, paths, []string{".claude/", ".worktrees/"})
}
