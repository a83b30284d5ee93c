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
	c.write(".ralph/prompts/other.md", "not a prompt\n")
	assert.NilError(t, os.Symlink("/etc/passwd", filepath.Join(c.root, ".ralph", "prompts", "plan.md")))
	c.push()
	assert.Equal(t, c.inSandbox("cat .ralph/prompts/*; find .ralph -type f"), "Build it.\n.ralph/prompts/build.md")
	assert.Equal(t, c.inSandbox("git status --porcelain"), "", "an agent could commit them")
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
	c.inSandbox("echo mine >.ralph/prompts/agents.md")
	c.push()
	assert.Equal(t, c.inSandbox("cat .ralph/prompts/build.md .ralph/prompts/agents.md"), "Build it well.\nmine")

	assert.NilError(t, os.RemoveAll(filepath.Join(c.root, ".ralph", "prompts")))
	c.push()
	assert.Equal(t, c.inSandbox("ls .ralph/prompts"), "agents.md")
}

// A link in the place of the prompts would show an agent what the user has not sent.
func TestPromptsBehindLinksAreNotCopied(t *testing.T) {
	t.Parallel()
	for link, targets := range map[string][]string{
		".ralph":                  {"secret", ".git", "/etc"},
		".ralph/prompts":          {"..", "../secret", "../.git", "/etc"},
		".ralph/prompts/build.md": {"../../secret/build.md", "../../.git/build.md", "/etc/passwd"},
	} {
		for _, target := range targets {
			c := newRepo(t).fillSandbox()
			for _, dir := range []string{"secret/", "secret/prompts/", ".git/", ".git/prompts/", ""} {
				c.write(dir+"build.md", "swordfish\n")
			}
			c.write(".git/info/exclude", "*\n")
			at := filepath.Join(c.root, filepath.FromSlash(link))
			assert.NilError(t, os.MkdirAll(filepath.Dir(at), 0o755))
			assert.NilError(t, os.Symlink(target, at))
			c.push()
			assert.Equal(t, c.inSandbox("grep -rl swordfish . || :; [ ! -e .ralph/prompts ] || echo copied"), "", "%s to %s", link, target)
		}
	}
}

// Tracked prompts come with commits: an edit of the user's is not committed by an agent, and is reported. Others are
// copied beside them.
func TestTrackedPromptsAreNotCopied(t *testing.T) {
	t.Parallel()
	c := newRepo(t).fillSandbox()
	c.write(".ralph/prompts/build.md", "Build it.\n")
	c.git("add", "-f", ".ralph")
	c.git("commit", "-qm", "prompts")
	c.write(".ralph/prompts/build.md", "Not committed.\n")
	c.write(".ralph/prompts/spec.md", "Specify it.\n")
	c.write("other.txt", "Not committed.\n")
	assert.DeepEqual(t, c.push().Uncommitted, []string{".ralph/prompts/build.md", "other.txt"})
	assert.Equal(t, c.inSandbox("cat .ralph/prompts/build.md .ralph/prompts/spec.md; git status --porcelain"), "Build it.\nSpecify it.")
}

// A prompt that was copied and is tracked then stays in the sandbox, and the other way round.
func TestCopiedPromptsBecomeTracked(t *testing.T) {
	t.Parallel()
	c := newRepo(t).fillSandbox()
	content := func() string { return c.inSandbox("cat .ralph/prompts/build.md; git status --porcelain") }
	c.write(".ralph/prompts/build.md", "Build it.\n")
	assert.Equal(t, len(c.push().Uncommitted), 0, "the sandbox has it")
	assert.Equal(t, content(), "Build it.")
	c.fetch()

	c.git("add", "-f", ".ralph")
	c.git("commit", "-qm", "prompts")
	c.push()
	assert.Equal(t, content(), "Build it.")
	c.fetch()

	c.git("rm", "-q", "--cached", "-r", ".ralph")
	c.git("commit", "-qm", "no prompts")
	c.push()
	assert.Equal(t, content(), "Build it.")
}

// An agent that adds all files does not commit the user's report.
func TestReportsAreNotCommitted(t *testing.T) {
	t.Parallel()
	c := newRepo(t).fillSandbox()
	assert.Equal(t, c.inSandbox("mkdir below; touch "+ReportFile+" below/"+ReportFile+"; git status --porcelain"), "")
}
