package dispatch

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle/privategit"
)

func TestWhoGetsAGitDirectoryOfItsOwn(t *testing.T) {
	for _, tc := range []struct {
		git, kind string
		origin    config.OriginKind
		want      bool
	}{
		{config.GitPrivate, config.DriverContainer, config.FromDefault, true},
		{config.GitPrivate, config.DriverSbx, config.FromDefault, false},
		{config.GitPrivate, config.DriverDockerSandbox, config.FromDefault, false},
		{config.GitPrivate, config.DriverContainer, config.FromEnvironment, true},
		{config.GitPrivate, config.DriverSbx, config.FromEnvironment, true},
		{config.GitPrivate, config.DriverDockerSandbox, config.FromEnvironment, true},
		{config.GitDirect, config.DriverContainer, config.FromEnvironment, false},
	} {
		var cfg config.Effective
		cfg.Sandbox.Git = tc.git
		cfg.Origins = map[string]config.Origin{"sandbox.git": {Kind: tc.origin}}
		assert.Equal(t, wantsPrivate(cfg, tc.kind), tc.want, "%+v", tc)
	}
}

// A fetch that was cut off would go on in the sandbox for a while, and look like an
// agent that may commit.
func TestAFetchUnderWayComesToItsEnd(t *testing.T) {
	top := t.TempDir()
	begun, free := make(chan struct{}), make(chan struct{})
	var g ownGit
	stop := g.follow(t.Context(), top, func(ctx context.Context, last string, ended bool) (privategit.Result, string, error) {
		assert.Check(t, ended)
		close(begun)
		<-free
		return privategit.Result{Commits: 3}, "tip", ctx.Err()
	})
	run := filepath.Join(top, ".ralph", "logs", "20260102T030405-build")
	assert.NilError(t, os.MkdirAll(run, 0o755))
	assert.NilError(t, os.WriteFile(filepath.Join(run, "iterations.jsonl"), nil, 0o644))
	<-begun
	time.AfterFunc(50*time.Millisecond, func() { close(free) })
	stop()
	assert.Equal(t, g.result.Commits, 3)
}

func TestProbe(t *testing.T) {
	root := t.TempDir()
	assert.Equal(t, probe(root), "")
	assert.NilError(t, os.Mkdir(filepath.Join(root, "a"), 0o755))
	assert.NilError(t, os.WriteFile(filepath.Join(root, ".git"), []byte("x"), 0o644))
	assert.NilError(t, os.Symlink("/etc/passwd", filepath.Join(root, "b")))
	assert.NilError(t, os.WriteFile(filepath.Join(root, "large"), make([]byte, 2<<20), 0o644))
	assert.Equal(t, probe(root), "")
	assert.NilError(t, os.WriteFile(filepath.Join(root, "small"), []byte("x"), 0o644))
	assert.Equal(t, probe(root), filepath.Join(root, "small"))
}

func TestLimited(t *testing.T) {
	var buf bytes.Buffer
	l := &limited{buf: &buf, left: 4}
	for range 3 {
		n, err := l.Write([]byte("abc"))
		assert.NilError(t, err)
		assert.Equal(t, n, 3)
	}
	assert.Equal(t, buf.String(), "abca")
}
