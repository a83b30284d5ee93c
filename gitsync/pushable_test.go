package gitsync

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// What is on other branches only stays out of a sandbox.
func TestOnlyCommitsOfTheBranchAreSent(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.git("branch", "merged")
	w.git("tag", "v1")
	w.git("switch", "-q", "-c", "secret")
	w.write("key.txt", "swordfish\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "key")
	w.git("tag", "-a", "-m", "key", "v2")
	secret := w.tip("HEAD")
	w.git("switch", "-q", "main")
	c := w.fillSandbox()
	c.push()
	refs := func() string { return c.inSandbox("git for-each-ref --format='%(refname)' refs/heads refs/tags") }
	assert.Equal(t, refs(), "refs/heads/main\nrefs/heads/merged\nrefs/tags/v1")
	assert.Check(t, is.Contains(c.inSandbox("git cat-file -e "+secret+" 2>&1 || echo missing"), "missing"))

	// A branch that has moved on stays where it was.
	c.fetch()
	c.git("branch", "-f", "merged", "secret")
	c.push()
	assert.Equal(t, refs(), "refs/heads/main\nrefs/heads/merged\nrefs/tags/v1")
	assert.Check(t, is.Contains(c.inSandbox("git cat-file -e "+secret+" 2>&1 || echo missing"), "missing"))

	// Until the user switches there.
	c.fetch()
	c.git("switch", "-q", "secret")
	c.push()
	assert.Equal(t, refs(), "refs/heads/main\nrefs/heads/merged\nrefs/heads/secret\nrefs/tags/v1\nrefs/tags/v2")
}
