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

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/internal/testutil/conformance"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Nearly all of the time is spent waiting for engines.
	if f := flag.Lookup("test.parallel"); f.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set(fmt.Sprint(3 * runtime.GOMAXPROCS(0)))
	}
	m.Run()
}

// A network policy, which users have by default, adds containers and a network of
// the sandbox's own.
func TestConformance(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		for name, mode := range map[string]egress.Mode{"no policy": "", "allowlist": egress.Allowlist} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newSuite(t, e)
				s.Parallel = true
				s.NewSpec = func(t *testing.T) lifecycle.Spec {
					spec := newSpec(t, t.Name())
					spec.Egress.Policy.Mode = mode
					return spec
				}
				s.Run(t)
			})
		}
	})
}

func newSuite(t *testing.T, e engines.Engine) conformance.Suite {
	return conformance.Suite{
		Driver:  &container.Driver{API: e.Client(t), Host: e.Host, StateDir: t.TempDir()},
		NewSpec: func(t *testing.T) lifecycle.Spec { return newSpec(t, t.Name()) },
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
