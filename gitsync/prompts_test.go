package gitsync

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

// A sandbox always has the user's current prompts, which git ignores.
func TestPromptsAreCopied(t *testing.T) {
	t.Parallel()
	c := newRepo(t).fillSandbox()
	c.write(".ralph/.gitignore", "*\n")
	c.write(".ralph/tasks.db", "not copied\n")
	c.write(".ralph/prompts/build.md", "Build it.\n")
	assert.NilError(t, os.Symlink("/etc/passwd", filepath.Join(c.root, ".ralph", "prompts", "link.md")))
	c.push()
	assert.Equal(t, c.inSandbox("cat .ralph/prompts/*; find .ralph -type f"), "Build it.\n.ralph/prompts/build.md")
	c.fetch()

	unchanged := func() bool {
		t.Helper()
		_, done, err := c.repo.PushUnchanged(t.Context(), c.sh)
		assert.NilError(t, err)
		return done
	}
	assert.Assert(t, unchanged())
	c.write(".ralph/prompts/build.md", "Build it well.\n")
	assert.Assert(t, !unchanged())
	c.push()
	assert.Equal(t, c.inSandbox("cat .ralph/prompts/build.md"), "Build it well.")

	assert.NilError(t, os.RemoveAll(filepath.Join(c.root, ".ralph", "prompts")))
	c.push()
	assert.Equal(t, c.inSandbox("ls .ralph"), "")
}
