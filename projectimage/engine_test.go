package projectimage

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/moby/buildkit/identity"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/icmd"

	"github.com/docker-ralph/docker-ralph/internal/testutil/output"
)

// testEngine is one of the real engines that RALPH_TEST_ENGINES names.
type testEngine struct {
	name, host string
	*client.Client
	base     string // a base image of this test alone, so that no other test has its tags
	inspects atomic.Int64
	others   atomic.Int64
}

func (e *testEngine) ImageInspect(ctx context.Context, ref string, options ...client.ImageInspectOption) (client.ImageInspectResult, error) {
	e.inspects.Add(1)
	return e.Client.ImageInspect(ctx, ref, options...)
}

func (e *testEngine) ImagePull(ctx context.Context, ref string, options client.ImagePullOptions) (client.ImagePullResponse, error) {
	e.others.Add(1)
	return e.Client.ImagePull(ctx, ref, options)
}

// onEngines runs test against every engine of RALPH_TEST_ENGINES, all at once, and
// beside other tests: builds wait for disks more than they work.
func onEngines(t *testing.T, test func(t *testing.T, e *testEngine)) {
	t.Helper()
	t.Parallel()
	onEachAlone(t, func(t *testing.T, e *testEngine) {
		t.Parallel()
		test(t, e)
	})
}

// onEachAlone runs test against one engine after the other, while no other test
// runs: for tests of how long something takes, or with variables of this process.
func onEachAlone(t *testing.T, test func(t *testing.T, e *testEngine)) {
	t.Helper()
	engines := os.Getenv("RALPH_TEST_ENGINES")
	if engines == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("RALPH_TEST_ENGINES is not set")
		}
		t.Skip(`RALPH_TEST_ENGINES is not set: start the engines with "scripts/engine.sh up" and export what "scripts/engine.sh env" prints`)
	}
	for entry := range strings.SplitSeq(engines, ",") {
		name, host, ok := strings.Cut(entry, "=")
		assert.Assert(t, ok, "RALPH_TEST_ENGINES has %q, which is not NAME=HOST", entry)
		t.Run(name, func(t *testing.T) { test(t, newTestEngine(t, name, host)) })
	}
}

func newTestEngine(t *testing.T, name, host string) *testEngine {
	t.Helper()
	c, err := client.New(client.WithHost(host))
	assert.NilError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	e := &testEngine{name: name, host: host, Client: c}
	source := os.Getenv("RALPH_TEST_BASE")
	if source == "" {
		source = "ralph-test-base:bookworm"
	}
	e.base = uniqueName("ralph-test-projectimage")
	_, err = c.ImageTag(t.Context(), client.ImageTagOptions{Source: source, Target: e.base})
	assert.NilError(t, err, "the tests need a base image: scripts/base-image.sh %s %s", source, host)
	e.removeAfter(t, e.base)
	return e
}

// sendsSource reports whether its BuildKit says which lines of a Dockerfile failed:
// that of Docker 20.10 does not.
func (e *testEngine) sendsSource() bool { return e.name != "debian" }

// uniqueName returns a reference that nobody else uses.
func uniqueName(prefix string) string {
	return prefix + ":" + identity.NewID()
}

// removeAfter removes image ref when the test ends.
func (e *testEngine) removeAfter(t *testing.T, ref string) {
	t.Cleanup(func() {
		_, _ = e.ImageRemove(context.WithoutCancel(t.Context()), ref, client.ImageRemoveOptions{Force: true})
	})
}

// builder returns a builder on e and what it shows.
func (e *testEngine) builder(t *testing.T) (*Builder, *output.Buffer) {
	t.Helper()
	out := &output.Buffer{}
	return &Builder{Engine: e, Progress: Progress{Mode: ModePlain, Out: out}, LockDir: t.TempDir()}, out
}

// ensure makes sure of an agent's image on base and removes it after the test.
func (e *testEngine) ensure(t *testing.T, req Request) (Image, error) {
	t.Helper()
	b, out := e.builder(t)
	image, err := b.Ensure(t.Context(), req)
	if err == nil {
		e.removeAfter(t, image.Ref)
	} else {
		t.Logf("progress:\n%s", out.String())
	}
	return image, err
}

// derive builds a base image from the test's base with more instructions.
func (e *testEngine) derive(t *testing.T, instructions string) string {
	t.Helper()
	b, out := e.builder(t)
	spec := buildSpec{
		tag: uniqueName("ralph-test-projectimage-derived"), base: e.base,
		dockerfile: []byte("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n" + instructions + "\n"),
	}
	e.removeAfter(t, spec.tag)
	assert.NilError(t, b.build(t.Context(), spec, false), "%s", out)
	return spec.tag
}

// takeOwnBase makes the base of the test differ from that of all others. Who builds
// without the cache, or expects the same image from it twice, needs one: BuildKit
// takes the same step of two builds that run at once for one, even if it is not to
// use its cache, and what was built without the cache is what others get from it.
func (e *testEngine) takeOwnBase(t *testing.T) {
	t.Helper()
	e.base = e.derive(t, "RUN echo "+identity.NewID()+" >/etc/made-for")
}

// run runs a shell script in a container of image and returns what it prints.
func (e *testEngine) run(t *testing.T, image, script string) string {
	t.Helper()
	result := icmd.RunCommand("docker", "-H", e.host, "run", "--rm", "--network", "none", image, "sh", "-ec", script)
	result.Assert(t, icmd.Success)
	return strings.TrimSpace(result.Stdout())
}
