//go:build unix

package microvm_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/dockersandbox"
	"github.com/docker-ralph/docker-ralph/lifecycle/drivertest"
	"github.com/docker-ralph/docker-ralph/lifecycle/drivertest/double"
	"github.com/docker-ralph/docker-ralph/lifecycle/drivertest/double/doubletest"
	"github.com/docker-ralph/docker-ralph/lifecycle/drivertest/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle/drivertest/gotest"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
	"github.com/docker-ralph/docker-ralph/lifecycle/sbx"
	"github.com/docker-ralph/docker-ralph/scope"
)

// keepEnv makes the test binary a keeper, which drivers start as a process of
// its own. Its value is the state folder.
const keepEnv = "MICROVM_TEST_KEEP"

func TestMain(m *testing.M) {
	ctx := context.Background() //nolint:forbidigo // there is no test yet
	if state := os.Getenv(keepEnv); state != "" && len(os.Args) == 5 && os.Args[1] == "keep" {
		d := newDriver(os.Args[2], state)
		if err := d.Keep(ctx, os.Args[3], os.Args[4]); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if job := os.Getenv(execEnv); job != "" {
		os.Exit(runAsClient(ctx, job))
	}
	os.Exit(m.Run())
}

// These change the drivers of other processes than the test's own.
const (
	heartbeatEnv = "MICROVM_TEST_HEARTBEAT"
	noKeeperEnv  = "MICROVM_TEST_NO_KEEPER"
)

// newDriver makes a driver for the programs that are on PATH.
func newDriver(kind, state string) *microvm.Driver {
	base := microvm.Driver{StateDir: state, Keeper: []string{os.Args[0], "keep"}, Report: func(string) {}}
	if os.Getenv(noKeeperEnv) != "" {
		base.Keeper = nil
	}
	if kind == sbx.Name {
		return sbx.New(&sbx.Dialect{StateDir: state}, base)
	}
	docker, _ := exec.LookPath("docker")
	beat, _ := time.ParseDuration(os.Getenv(heartbeatEnv))
	return dockersandbox.New(&dockersandbox.Dialect{Docker: docker, Beat: beat}, base)
}

// bench is a driver with doubles to try it on.
type bench struct {
	kind   string
	double *doubletest.Double
	driver *microvm.Driver
	state  string
}

// newBench sets a driver up. It changes the environment of the test.
func newBench(t *testing.T, kind string, change func(*double.Settings)) *bench {
	t.Helper()
	b := &bench{kind: kind, double: doubletest.New(t, change)}
	b.double.Setenv(t)
	b.state = filepath.Join(b.double.Shared, "ralph")
	assert.NilError(t, os.MkdirAll(b.state, 0o755))
	t.Setenv(keepEnv, b.state)
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	b.driver = newDriver(kind, b.state)
	return b
}

// spec describes a sandbox that nobody else uses.
func (b *bench) spec(t *testing.T) lifecycle.Spec {
	t.Helper()
	root, err := os.MkdirTemp(b.double.Shared, "tree-")
	assert.NilError(t, err)
	b.double.Share(t, root)
	return newSpec(t, root)
}

func newSpec(t *testing.T, root string) lifecycle.Spec {
	t.Helper()
	s := scope.Scope{Repo: "acme/test", Branch: rand.Text()[:10]}
	name, err := s.SandboxName()
	assert.NilError(t, err)
	return lifecycle.Spec{
		Name: name, Scope: s, Root: root, MainRoot: root, Agent: "shell", Image: "docker/sandbox-templates:shell",
		Resources: lifecycle.Resources{Memory: 1 << 30, NanoCPUs: 1e9, Pids: 100}, Version: "test",
	}
}

// suite is the conformance suite for the bench.
func (b *bench) suite(t *testing.T) drivertest.Suite {
	return drivertest.Suite{
		Driver:  b.driver,
		NewSpec: func(drivertest.T) lifecycle.Spec { return b.spec(t) },
		Owner:   lifecycle.User{UID: -1},
		// The Docker CLI stands between us and the plugin.
		NoResize: b.kind == dockersandbox.Name,
	}
}

func (b *bench) up(t *testing.T) (lifecycle.Sandbox, lifecycle.Spec) {
	t.Helper()
	return b.suite(t).Up(gotest.T(t))
}

// kinds runs a test for both programs.
func kinds(t *testing.T, test func(t *testing.T, kind string)) {
	t.Helper()
	for _, kind := range []string{sbx.Name, dockersandbox.Name} {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

// TestConformance runs the suite with every sandbox a container, as near to a
// microVM as a test machine comes.
func TestConformance(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		engines.Each(t, func(t *testing.T, e engines.Engine) {
			b := newBench(t, kind, func(s *double.Settings) {
				s.Mode, s.Engine, s.Template = double.ModeContainer, e.Host, engines.BaseImage()
			})
			s := b.suite(t)
			s.Owner = lifecycle.User{UID: os.Getuid(), GID: os.Getgid()}
			s.Run(gotest.T(t))
		})
	})
}

// TestConformanceWithoutAnEngine runs it with every sandbox a process tree.
func TestConformanceWithoutAnEngine(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		newBench(t, kind, nil).suite(t).Run(gotest.T(t))
	})
}
