package hostgit

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

func TestBranchAgreesWithGit(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	user, err := gitrepo.NewGit(root)
	assert.NilError(t, err)
	git := func(args ...string) {
		t.Helper()
		_, err := user.Run(t.Context(), append([]string{"-c", "user.name=U", "-c", "user.email=u@e"}, args...)...)
		assert.NilError(t, err)
	}
	git("init", "-q", "-b", "main")
	branch := func() string {
		t.Helper()
		wt, err := gitrepo.Detect(t.Context(), root, func(string) string { return "any" })
		assert.NilError(t, err)
		g, err := New(wt)
		assert.NilError(t, err)
		name, err := g.Branch(t.Context())
		assert.NilError(t, err)
		return name
	}
	assert.Equal(t, branch(), "main", "unborn")
	git("commit", "-q", "--allow-empty", "-m", "first")
	git("checkout", "-q", "-b", "feature/a")
	git("pack-refs", "--all")
	assert.Equal(t, branch(), "feature/a")
	git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
	git("symbolic-ref", "HEAD", "refs/heads/alias")
	assert.Equal(t, branch(), "main", "a symbolic ref")
	git("checkout", "-q", "--detach")
	assert.Equal(t, branch(), "")
}
