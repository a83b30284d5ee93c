package sandboxcli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli/sandboxclitest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Nearly all of the time is spent waiting for engines and clocks.
	if f := flag.Lookup("test.parallel"); f.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set(fmt.Sprint(4 * runtime.GOMAXPROCS(0)))
	}
	m.Run()
}

// fixture is a fake that a test calls.
type fixture struct {
	*sandboxclitest.Fake
	plugin bool
	ws     string // a work tree
}

// result is how a call has ended.
type result struct {
	code     int
	out, err string
}

// newFixture sets up a fake in process mode.
func newFixture(t *testing.T, change func(*sandboxcli.Settings)) fixture {
	t.Helper()
	r := fixture{Fake: sandboxclitest.New(t, change)}
	r.ws = r.folder(t, "ws")
	return r
}

// directory makes a directory that sandboxes can use.
func (r fixture) folder(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(r.Shared, name)
	assert.NilError(t, os.MkdirAll(dir, 0o755))
	r.Share(t, dir)
	return dir
}

func (r fixture) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if r.plugin {
		return r.Plugin(t.Context(), args...)
	}
	return r.Sbx(t.Context(), args...)
}

// run calls the fake with some input.
func (r fixture) run(t *testing.T, in string, args ...string) result {
	t.Helper()
	cmd := r.command(t, args...)
	cmd.Stdin = strings.NewReader(in)
	return finish(t, cmd)
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return result{exit.ExitCode(), out.String(), errOut.String()}
	}
	assert.NilError(t, err)
	return result{0, out.String(), errOut.String()}
}

// ok calls the fake, which must succeed, and returns its output.
func (r fixture) ok(t *testing.T, args ...string) string {
	t.Helper()
	res := r.run(t, "", args...)
	assert.Equal(t, res.code, 0, "%q: %s%s", args, res.out, res.err)
	return res.out
}

// create creates a sandbox of the worktree.
func (r fixture) create(t *testing.T, name string, flags ...string) {
	t.Helper()
	r.ok(t, append(append([]string{"create", "--name", name}, flags...), "shell", r.ws)...)
}

// item is a sandbox of a list, of either CLI.
type item struct {
	Name       string
	ID         string
	Agent      string
	Status     string
	Workspaces []string
	CreatedAt  string `json:"created_at"`
}

func (r fixture) list(t *testing.T) []item {
	t.Helper()
	var list struct{ Sandboxes, VMs []item }
	assert.NilError(t, json.Unmarshal([]byte(r.ok(t, "ls", "--json")), &list))
	if r.plugin {
		return list.VMs
	}
	return list.Sandboxes
}

func (r fixture) status(t *testing.T, name string) string {
	t.Helper()
	for _, i := range r.list(t) {
		if i.Name == name {
			return i.Status
		}
	}
	return ""
}

func (r fixture) waitForStatus(t *testing.T, name, want string) {
	t.Helper()
	eventually(t, func() bool { return r.status(t, name) == want })
}

func eventually(t *testing.T, is func() bool) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if !is() {
			return poll.Continue("not yet")
		}
		return poll.Success()
	}, poll.WithTimeout(20*time.Second), poll.WithDelay(20*time.Millisecond))
}

// bothCLIs runs a test for each CLI in process mode.
func bothCLIs(t *testing.T, test func(t *testing.T, r fixture)) {
	t.Helper()
	for _, cli := range []string{"sbx", "plugin"} {
		t.Run(cli, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, nil)
			r.plugin = cli == "plugin"
			test(t, r)
		})
	}
}

// onEngines runs a test for each CLI in process mode, and in containers: each
// on an engine of its own, as it makes no difference to a CLI.
func onEngines(t *testing.T, test func(t *testing.T, r fixture)) {
	t.Helper()
	t.Run("process", func(t *testing.T) {
		t.Parallel()
		bothCLIs(t, test)
	})
	t.Run("container", func(t *testing.T) {
		t.Parallel()
		engines.Each(t, func(t *testing.T, e engines.Engine) {
			t.Parallel()
			r := newFixture(t, inContainers(e))
			r.plugin = e.Kind() == "debian"
			test(t, r)
		})
	})
}

func inContainers(e engines.Engine) func(*sandboxcli.Settings) {
	return func(s *sandboxcli.Settings) {
		s.Mode, s.Engine, s.Template = sandboxcli.ModeContainer, e.Host, engines.BaseImage()
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// runs counts the processes of this machine, those in containers too, with a
// command line.
func runs(t *testing.T, command string) int {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	assert.NilError(t, err)
	count := 0
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err == nil && strings.ReplaceAll(string(content), "\x00", " ") == command+" " {
			count++
		}
	}
	return count
}
