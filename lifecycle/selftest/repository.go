package selftest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
)

// newRepository creates a git repository with one commit below dir. Its origin is
// unique, and so is its sandbox.
func newRepository(ctx context.Context, dir string) (root string, err error) {
	id := strings.ToLower(rand.Text()[:10])
	root = filepath.Join(dir, id)
	specs := filepath.Join(root, "specs") // the loop needs one
	err = os.MkdirAll(specs, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(specs, "selftest.md"), []byte("# Self-test\n\nCreate a proof.\n"), 0o644)
	}
	if err != nil {
		return "", fmt.Errorf("creating the test repository: %w", err)
	}
	for _, args := range [][]string{
		{"init", "-q", "--template="},
		{"symbolic-ref", "HEAD", "refs/heads/main"},
		{"remote", "add", "origin", "https://docker-ralph.invalid/selftest/" + id + ".git"},
		{"add", "specs"},
		{"-c", "user.name=docker-ralph", "-c", "user.email=docker-ralph@localhost", "commit", "-q", "-m", "Begin"},
	} {
		if _, err := git(ctx, root, args...); err != nil {
			return "", fmt.Errorf("creating the test repository: %w", err)
		}
	}
	return root, nil
}

// git runs git in a repository, without the user's hooks, keys and other
// configuration, and returns its output.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	environ := slices.DeleteFunc(gitrepo.Environ(os.Environ()), func(entry string) bool { return strings.HasPrefix(entry, "GIT_CONFIG") })
	out, err := gitrepo.Git{
		Program: "git", Dir: dir, Config: []string{"commit.gpgSign=false"},
		Environ: append(environ, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull),
	}.Run(ctx, args...)
	if errors.Is(err, exec.ErrNotFound) {
		err = hint.Wrap(err, "install git: docker ralph works in git repositories")
	}
	return strings.TrimSpace(out), err
}
