//go:build unix

package microvm_test

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/internal/testutil/conformance"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli/sandboxclitest"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
	"github.com/docker-ralph/docker-ralph/wire"
)

func TestMain(m *testing.M) {
	ctx := context.Background() //nolint:forbidigo // there is no test yet
	if job := os.Getenv(execEnv); job != "" {
		os.Exit(runAsClient(ctx, job))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	flag.Parse()
	// Tests mostly wait for engines and timers.
	if f := flag.Lookup("test.parallel"); f.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set(fmt.Sprint(4 * runtime.GOMAXPROCS(0)))
	}
	if os.Getenv(subprocessEnv) == "" {
		dir, err := unpack()
		defer func() { _ = os.RemoveAll(dir) }()
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "unpacking ralph for the tests:", err)
			return 1
		}
	}
	return m.Run()
}

// unpackedEnv names a file with the embedded ralph. Unpacking it takes longer than most tests,
// so that fixtures link it.
const unpackedEnv = "MICROVM_TEST_UNPACKED"

func unpack() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "microvm-test-"); err != nil {
		return "", err
	}
	p, err := guestbin.For(runtime.GOARCH)
	if err != nil {
		return dir, err
	}
	program, err := p.Binary()
	if err != nil {
		return dir, err
	}
	path := filepath.Join(dir, wire.Program)
	return dir, errors.Join(os.WriteFile(path, program, 0o755), os.Setenv(unpackedEnv, path), sandboxclitest.BuildOnce())
}

// linkRalph links ralph where the driver would unpack it.
func (b *fixture) linkRalph(t *testing.T) {
	t.Helper()
	p, err := guestbin.For(runtime.GOARCH)
	assert.NilError(t, err)
	dir := filepath.Join(b.state, "guest", p.Short())
	assert.NilError(t, os.MkdirAll(dir, 0o755))
	assert.NilError(t, os.Link(os.Getenv(unpackedEnv), filepath.Join(dir, wire.Program)))
}

// heartbeatEnv configures drivers in other processes.
const heartbeatEnv = "MICROVM_TEST_HEARTBEAT"

// newDriver returns a driver for the programs on PATH.
func newDriver(kind, state string) *microvm.Driver {
	o := microvm.Options{StateDir: state, Report: func(string) {}}
	o.Docker, _ = exec.LookPath("docker")
	o.Beat, _ = time.ParseDuration(os.Getenv(heartbeatEnv))
	return microvm.New(kind, o)
}

// fixture is a driver with fakes of the programs.
type fixture struct {
	kind   string
	fake   *sandboxclitest.Fake
	driver *microvm.Driver
	state  string
}

// newFixture sets up a driver, and changes the environment of the test.
func newFixture(t *testing.T, kind string, change func(*sandboxcli.Settings)) *fixture {
	t.Helper()
	b := &fixture{kind: kind, fake: sandboxclitest.New(t, change)}
	b.fake.Setenv(t)
	b.state = filepath.Join(b.fake.Shared, "ralph")
	assert.NilError(t, os.MkdirAll(b.state, 0o755))
	b.linkRalph(t)
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	b.driver = newDriver(kind, b.state)
	return b
}

// spec returns the spec of a unique sandbox.
func (b *fixture) spec(t *testing.T) lifecycle.Spec {
	t.Helper()
	root, err := os.MkdirTemp(b.fake.Shared, "tree-")
	assert.NilError(t, err)
	b.fake.Share(t, root)
	spec := newSpec(t, root)
	spec.Config = root + "-config"
	return spec
}

func newSpec(t *testing.T, root string) lifecycle.Spec {
	t.Helper()
	s := gitrepo.Scope{Repo: "acme/test", Branch: rand.Text()[:10]}
	name, err := s.SandboxName()
	assert.NilError(t, err)
	return lifecycle.Spec{
		Name: name, Scope: s, Root: root, MainRoot: root, Agent: "shell", Image: "docker/sandbox-templates:shell",
		Resources: lifecycle.Resources{Memory: 1 << 30, NanoCPUs: 1e9, Pids: 100}, Version: "test",
	}
}

// suite is the conformance suite for the fixture.
func (b *fixture) suite(t *testing.T) conformance.Suite {
	return conformance.Suite{
		Driver:  b.driver,
		NewSpec: func(*testing.T) lifecycle.Spec { return b.spec(t) },
		Owner:   lifecycle.User{UID: -1},
		// The Docker CLI runs the plugin.
		NoResize: b.kind == microvm.DockerSandbox,
	}
}

func (b *fixture) create(t *testing.T) (lifecycle.Sandbox, lifecycle.Spec) {
	t.Helper()
	return b.suite(t).Up(t)
}

// forEachDriver runs a test for both programs.
func forEachDriver(t *testing.T, test func(t *testing.T, kind string)) {
	t.Helper()
	for _, kind := range microvm.Drivers() {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

// inContainers runs a test for both programs, each on one engine. Every sandbox is a
// container, so that it sees its own processes only.
func inContainers(t *testing.T, change func(*sandboxcli.Settings), test func(t *testing.T, b *fixture)) {
	t.Helper()
	parallelUnlessSubprocess(t)
	forEachDriver(t, func(t *testing.T, kind string) {
		parallelUnlessSubprocess(t)
		engines.Each(t, func(t *testing.T, e engines.Engine) {
			another := len(engines.List()) > 1 && (kind == microvm.Sbx) != (e.Kind() == "moby")
			if another || inSubprocess(t) {
				return
			}
			test(t, newFixture(t, kind, func(s *sandboxcli.Settings) {
				s.Mode, s.Engine, s.Template = sandboxcli.ModeContainer, e.Host, engines.BaseImage()
				change(s)
			}))
		})
	})
}

// TestConformance runs the suite with containers as sandboxes, which resemble microVMs.
func TestConformance(t *testing.T) {
	inContainers(t, func(*sandboxcli.Settings) {}, func(t *testing.T, b *fixture) {
		s := b.suite(t)
		s.Owner = lifecycle.User{UID: os.Getuid(), GID: os.Getgid()}
		s.Parallel = true
		s.Run(t)
	})
}

// TestConformanceWithoutAnEngine runs it with process trees as sandboxes. They see each
// other's processes, so nothing else runs meanwhile.
func TestConformanceWithoutAnEngine(t *testing.T) {
	forEachDriver(t, func(t *testing.T, kind string) {
		newFixture(t, kind, nil).suite(t).Run(t)
	})
}
