package dispatch

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
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
