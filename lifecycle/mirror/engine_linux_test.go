package mirror

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// elsewhere runs commands in another directory than the worktree's, in place of a clone.
type elsewhere struct {
	lifecycle.Driver
	dir   string
	execs atomic.Int32
}

func (e *elsewhere) Exec(ctx context.Context, sb lifecycle.Sandbox, p lifecycle.Process) (int, error) {
	e.execs.Add(1)
	p.Dir = e.dir
	return e.Driver.Exec(ctx, sb, p)
}

func TestFollowOnAnEngine(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		f := setup(t)
		inside := t.TempDir()
		for dir := inside; dir != os.TempDir(); dir = filepath.Dir(dir) {
			assert.NilError(t, os.Chmod(dir, 0o755))
		}
		assert.NilError(t, os.WriteFile(filepath.Join(inside, "HEAD"), nil, 0o644))
		scope := gitrepo.Scope{Repo: "acme/test", Branch: rand.Text()}
		name, err := scope.SandboxName()
		assert.NilError(t, err)
		driver := &container.Driver{API: e.Client(t), Host: e.Host, StateDir: f.host.StateDir}
		spec := lifecycle.Spec{
			Name: name, Scope: scope, Root: inside, MainRoot: inside, Probe: filepath.Join(inside, "HEAD"),
			Agent: "shell", Image: engines.BaseImage(), Version: "test", Config: filepath.Join(t.TempDir(), "shown"),
			Resources: lifecycle.Resources{Memory: 512 << 20, NanoCPUs: 1e9, Pids: 200},
		}
		sb, err := driver.Create(t.Context(), spec)
		assert.NilError(t, err)
		defer func() { assert.NilError(t, driver.Remove(context.WithoutCancel(t.Context()), sb)) }()
		assert.NilError(t, driver.Start(t.Context(), sb))
		sb, err = driver.Lookup(t.Context(), name)
		assert.NilError(t, err)
		assert.NilError(t, driver.Prepare(t.Context(), sb, spec))

		f.box.clone = inside
		clone := &elsewhere{Driver: driver, dir: inside}
		mirrored := sb
		mirrored.Clone, mirrored.Root = true, f.sb.Root
		l := f.loop()
		out := l.Output(1)
		await := func() {
			t.Helper()
			poll.WaitOn(t, func(poll.LogT) poll.Result {
				if f.same(l) {
					return poll.Success()
				}
				return poll.Continue("the logs differ")
			}, poll.WithDelay(10*time.Millisecond), poll.WithTimeout(30*time.Second))
		}
		stop := Follow(t.Context(), f.host, clone, mirrored)
		for n := range 1000 {
			_, _ = fmt.Fprintln(out, "line", n)
		}
		await()
		assert.Equal(t, clone.execs.Load(), int32(1), "one stream for all lines")
		running, err := driver.Dispatches(t.Context(), sb)
		assert.NilError(t, err)
		assert.Equal(t, len(running), 1)
		assert.Assert(t, Is(running[0]), "%+v", running)
		busy, err := driver.Busy(t.Context(), sb)
		assert.NilError(t, err)
		assert.Assert(t, !busy, "copying logs is no command")

		// It connects again after a restart.
		assert.NilError(t, driver.Stop(t.Context(), sb))
		_, _ = fmt.Fprintln(out, "more")
		assert.NilError(t, driver.Start(t.Context(), sb))
		await()
		assert.NilError(t, l.Finish(runlog.LoopEnd{Stop: "complete"}))
		stop()
		assert.Assert(t, f.same(l))
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			running, err := driver.Dispatches(t.Context(), sb)
			assert.NilError(t, err)
			if len(running) > 0 {
				return poll.Continue("it still runs in the sandbox")
			}
			return poll.Success()
		}, poll.WithDelay(50*time.Millisecond))
		_, _ = io.WriteString(out, "after the end\n")
		assert.NilError(t, Sync(t.Context(), f.host, clone, mirrored))
		assert.Assert(t, f.same(l))
	})
}
