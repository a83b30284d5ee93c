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
