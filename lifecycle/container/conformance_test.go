package container_test

import (
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/drivertest"
	"github.com/docker-ralph/docker-ralph/lifecycle/drivertest/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle/drivertest/gotest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Nearly all of the time is spent waiting for engines.
	if f := flag.Lookup("test.parallel"); f.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set(fmt.Sprint(3 * runtime.GOMAXPROCS(0)))
	}
	m.Run()
}

func TestConformance(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		s := newSuite(t, e)
		s.Parallel = true
		s.Run(gotest.T(t))
	})
}

func newSuite(t *testing.T, e engines.Engine) drivertest.Suite {
	return drivertest.Suite{
		Driver:  &container.Driver{API: e.Client(t), Host: e.Host, StateDir: t.TempDir()},
		NewSpec: func(check drivertest.T) lifecycle.Spec { return newSpec(t, check.Name()) },
		Owner:   lifecycle.User{UID: 1234, GID: 2345},
	}
}

// newSpec makes a work tree that belongs to an ordinary user.
func newSpec(t testing.TB, name string) lifecycle.Spec {
	t.Helper()
	const uid, gid = 1234, 2345
	root := t.TempDir()
	probe := filepath.Join(root, "HEAD")
	assert.NilError(t, os.WriteFile(probe, []byte("ref: refs/heads/main\n"), 0o644))
	// The folders above are open to their owner only.
	for dir := root; dir != os.TempDir(); dir = filepath.Dir(dir) {
		assert.NilError(t, os.Chmod(dir, 0o755))
	}
	assert.NilError(t, os.Chown(root, uid, gid))
	branch := rand.Text()[:8] + "-" + name // what a killed test has left is not in the way
	s := gitrepo.Scope{Repo: "acme/test", Branch: branch}
	sandbox, err := s.SandboxName()
	assert.NilError(t, err)
	return lifecycle.Spec{
		Name:      sandbox,
		Scope:     s,
		Root:      root,
		MainRoot:  root,
		Probe:     probe,
		Agent:     "shell",
		Image:     engines.BaseImage(),
		Resources: lifecycle.Resources{Memory: 512 << 20, NanoCPUs: 1e9, Pids: 200},
		User:      lifecycle.User{UID: uid, GID: gid},
		Version:   "test",
		Config:    filepath.Join(t.TempDir(), "shown"),
	}
}
