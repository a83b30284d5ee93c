package projectimage

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/moby/buildkit/identity"
	"github.com/moby/buildkit/util/staticfs"
	fstypes "github.com/tonistiigi/fsutil/types"
	"golang.org/x/sync/errgroup"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/icmd"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/internal/testutil/output"
)

// spec describes a test image: instructions on the test's base.
func (e *testEngine) spec(t *testing.T, instructions string) buildSpec {
	spec := buildSpec{
		tag: uniqueName("ralph-test-projectimage-built"), base: e.base,
		dockerfile: []byte("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n" + instructions + "\n"),
	}
	e.removeAfter(t, spec.tag)
	return spec
}

func TestEngineFailingStep(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		spec := e.spec(t, "RUN echo fine\nRUN echo one; \\\n    echo two; \\\n    exit 42\nRUN echo never")
		b, _ := e.builder(t)
		err := b.build(t.Context(), spec, false)
		var buildErr *BuildError
		assert.Assert(t, errors.As(err, &buildErr), "%v", err)
		assert.DeepEqual(t, buildErr.Log, []string{"one", "two"})
		t.Log(err)
		assert.ErrorContains(t, err, `building image "`+spec.tag+`" on base "`+e.base+`": `)
		if e.sendsSource() {
			assert.ErrorContains(t, err, "exit code: 42\nDockerfile:4\n")
			assert.ErrorContains(t, err, "   4 | >>> RUN echo one; \\\n")
			assert.ErrorContains(t, err, "   6 | >>>     exit 42\n")
		}
		assert.ErrorContains(t, err, "last output of the step:\n  one\n  two")
		_, found, err := b.lookup(t.Context(), spec.tag)
		assert.NilError(t, err)
		assert.Assert(t, !found)
	})
}

func TestEngineBrokenDockerfile(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		b, _ := e.builder(t)
		err := b.build(t.Context(), e.spec(t, "RUNN true"), false)
		t.Log(err)
		assert.ErrorContains(t, err, "RUNN")
	})
}

func TestEngineUnknownBase(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		// Nothing listens on this port of the engine's own machine.
		const base = "127.0.0.1:1/no/such:base"
		_, err := e.ensure(t, Request{Agent: "shell", Base: base})
		t.Log(err)
		assert.ErrorContains(t, err, `base image "`+base+`" is not on the engine and cannot be pulled: `)
		assert.ErrorContains(t, err, "connection refused")
		assert.DeepEqual(t, hint.Of(err), []string{"choose another base with --base IMAGE or [image] base in ralph.toml, or use an image unchanged with --image IMAGE"})
	})
}

func TestEngineCancelledBuild(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		b, out := e.builder(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.build(ctx, e.spec(t, "RUN echo it has begun; sleep 600"), true) }()
		out.WaitFor(t, " it has begun\n")
		cancel()
		select {
		case err := <-done:
			assert.Assert(t, errors.Is(err, context.Canceled), "%v", err)
			assert.ErrorContains(t, err, "building image")
		case <-time.After(time.Minute):
			t.Fatal("the build does not end")
		}
	})
}

func TestEngineTwoProcessesBuildOnce(t *testing.T) {
	onEachAlone(t, func(t *testing.T, e *testEngine) {
		self, err := os.Executable()
		assert.NilError(t, err)
		e.removeAfter(t, refOf(t, Request{Agent: "shell", Base: e.base}))
		locks := t.TempDir()
		// All of them come while it is being built.
		b, _ := e.builder(t)
		b.LockDir = locks
		unlock, err := b.lock(t.Context(), refOf(t, Request{Agent: "shell", Base: e.base}))
		assert.NilError(t, err)
		time.AfterFunc(3*time.Second, unlock)
		var results [3]*icmd.Result
		var group errgroup.Group
		for i := range results {
			group.Go(func() error {
				results[i] = icmd.RunCmd(icmd.Command(self), icmd.WithEnv(append(os.Environ(), roleVariable+"=ensure",
					"DOCKER_HOST="+e.host, "RALPH_TEST_BASE="+e.base, "RALPH_TEST_LOCKS="+locks)...))
				return results[i].Error
			})
		}
		assert.NilError(t, group.Wait())
		var said, waited string
		for _, result := range results {
			said += result.Stdout()
			waited += result.Stderr()
		}
		assert.Equal(t, strings.Count(said, "true\n"), 1, said)
		assert.Equal(t, strings.Count(said, "false\n"), 2, said)
		assert.Assert(t, cmp.Contains(waited, "waiting for another docker ralph"))
	})
}

// noHijack is an engine that has dropped POST /grpc.
type noHijack struct{ *testEngine }

func (noHijack) DialHijack(context.Context, string, string, map[string][]string) (net.Conn, error) {
	return nil, errors.New("unable to upgrade to h2c, received 404")
}

func TestEngineWithoutHijack(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		b, out := e.builder(t)
		b.Engine = noHijack{e}
		spec := e.spec(t, "RUN true")
		err := b.build(t.Context(), spec, false)
		if e.name == "debian" { // its socket does not speak gRPC
			var noBuildKit *NoBuildKitError
			assert.Assert(t, errors.As(err, &noBuildKit), "%v", err)
			t.Log(err)
			return
		}
		assert.NilError(t, err, "%s", out)
	})
}

// TestEngineLayerWithContext builds what a project's own layer will be: COPY
// from a folder, on an agent's image that only this engine has.
func TestEngineLayerWithContext(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		agent, err := e.ensure(t, Request{Agent: "shell", Base: e.base})
		assert.NilError(t, err)
		spec := e.spec(t, "COPY tools /srv/tools")
		spec.base = agent.Ref
		files := staticfs.NewFS()
		files.Add("tools", &fstypes.Stat{Mode: 0o644}, []byte("hammer"))
		spec.context = files
		b, out := e.builder(t)
		assert.NilError(t, b.build(t.Context(), spec, false), "%s", out)
		assert.Equal(t, e.run(t, spec.tag, "cat /srv/tools; id -un"), "hammeragent")
	})
}

// BuildKit keeps what it was sent, and takes a file of the same size and time for
// the same. Dockerfiles are of many repositories, and of all their versions.
func TestEngineDockerfilesOfTheSameSize(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		for _, word := range []string{"one", "two", "six"} {
			spec := e.spec(t, "RUN echo "+word+" >/said")
			b, _ := e.builder(t)
			assert.NilError(t, b.build(t.Context(), spec, false))
			assert.Equal(t, e.run(t, spec.tag, "cat /said"), word)
		}
	})
}

func TestEngineProxyStaysOutOfTheImage(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		proxy := "http://user:secret@proxy.example:3128"
		b, out := e.builder(t)
		b.ProxyArgs = map[string]*string{"HTTP_PROXY": &proxy, "FTP_PROXY": nil}
		spec := e.spec(t, `RUN case "$HTTP_PROXY" in *ecret@proxy.example:3128) test -z "$FTP_PROXY" ;; *) exit 1 ;; esac`)
		assert.NilError(t, b.build(t.Context(), spec, false), "%s", out)
		history, err := e.ImageHistory(t.Context(), spec.tag)
		assert.NilError(t, err)
		for _, item := range history.Items {
			assert.Assert(t, !strings.Contains(item.CreatedBy, "user:secret"), item.CreatedBy)
		}
		assert.Equal(t, e.run(t, spec.tag, "env | grep -ic proxy || true"), "0")
	})
}

// A step that the repository chooses could send the proxy's password away.
func TestEngineProxyPasswordsStayOutOfAProjectsSteps(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		w := e.custom(t, `RUN test "$HTTP_PROXY$NO_PROXY" = .example # `+identity.NewID(), nil)
		secret, none := "http://user:secret@proxy.example:3128", ".example"
		w.ProxyArgs = map[string]*string{"HTTP_PROXY": &secret, "NO_PROXY": &none}
		w.mustDispatch(t)
		assert.Check(t, cmp.Contains(w.out.String(), "Warning: HTTP_PROXY in Docker's configuration contains a password and is not passed to the steps of "+
			projectPath(w.root, sandboxDockerfile)+"\n"))
	})
}

// BuildKit keeps the height of the terminal in a variable of the process.
func TestEngineProgressOnATerminal(t *testing.T) {
	onEachAlone(t, func(t *testing.T, e *testEngine) {
		control, terminal, err := pty.Open()
		assert.NilError(t, err)
		defer func() { _ = terminal.Close(); _ = control.Close() }()
		assert.NilError(t, pty.Setsize(terminal, &pty.Winsize{Rows: 40, Cols: 120}))
		screen := &output.Buffer{}
		go func() { _, _ = io.Copy(struct{ io.Writer }{screen}, control) }()
		b, _ := e.builder(t)
		b.Progress = Progress{Mode: ModeAuto, Out: terminal}
		spec := e.spec(t, "RUN true")
		for range 10 { // an engine 20.10 can lose the end of a step that was cached
			assert.NilError(t, b.build(t.Context(), spec, true))
			screen.WaitFor(t, "exporting to image")
			if screen.Contains("FINISHED") {
				return
			}
		}
		screen.WaitFor(t, "FINISHED")
	})
}

func TestEngineQuietProgress(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		b, out := e.builder(t)
		b.Progress.Mode = ModeQuiet
		assert.NilError(t, b.build(t.Context(), e.spec(t, "RUN true"), true))
		assert.Equal(t, out.String(), "")
		err := b.build(t.Context(), e.spec(t, "RUN echo why; false"), true)
		assert.ErrorContains(t, err, "last output of the step:\n  why")
	})
}

func TestProgressNeedsATerminalForTTY(t *testing.T) {
	b, _, _ := newFake(t, nil)
	b.Progress.Mode = ModeTTY
	assert.ErrorContains(t, b.build(t.Context(), buildSpec{}, false), `displaying progress as "tty"`)
	b.Progress.Mode = "fancy"
	assert.ErrorContains(t, b.build(t.Context(), buildSpec{}, false), `displaying progress as "fancy"`)
}
