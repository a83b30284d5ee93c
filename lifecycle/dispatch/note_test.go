package dispatch

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// running is a driver in whose sandbox dispatches run.
type running struct {
	lifecycle.Driver
	ids   []string
	asked int
	err   error
}

func (r *running) Dispatches(context.Context, lifecycle.Sandbox) ([]lifecycle.Dispatch, error) {
	r.asked++
	var all []lifecycle.Dispatch
	for _, id := range r.ids {
		all = append(all, lifecycle.Dispatch{ID: id})
	}
	return all, r.err
}

func (r *running) Manual(name string) lifecycle.Manual {
	return lifecycle.Manual{Stop: "stop " + name}
}

func TestOrphansAreNamed(t *testing.T) {
	var stderr bytes.Buffer
	h := Host{StateDir: t.TempDir(), Stderr: &stderr}
	sb := lifecycle.Sandbox{Name: "ralph-a"}
	begin := func(id string) func(error) {
		done, err := h.note(sb, lifecycle.Process{ID: id, Args: []string{"ralph", "build", "-n", "3"}})
		assert.NilError(t, err)
		return done.done
	}
	d := &running{ids: []string{"killed", "alive", "detached"}}

	h.nameOrphans(t.Context(), d, sb)
	begin("ended")(nil)
	alive := begin("alive")
	h.nameOrphans(t.Context(), d, sb)
	assert.Equal(t, d.asked, 0, "nobody is asked while all are well")
	assert.Equal(t, stderr.String(), "")

	begin("killed")(errors.New("as a killed process leaves it"))
	begin("detached")(lifecycle.ErrDetached)
	begin("over")(errors.New("its program has ended since"))
	assert.NilError(t, os.WriteFile(h.noteDir(sb.Name)+"/torn", []byte(`{"id":`), 0o600))
	h.nameOrphans(t.Context(), d, sb)
	assert.Equal(t, d.asked, 1)
	assert.Equal(t, bytes.Count(stderr.Bytes(), []byte("\n")), 2)
	assert.Assert(t, is.Contains(stderr.String(), `Warning: "ralph build -n 3" still runs in the sandbox ralph-a without a terminal, since `))
	assert.Assert(t, is.Contains(stderr.String(), `Stop it with "docker ralph stop ralph-a"`))
	left, err := h.leftNotes(sb.Name)
	assert.NilError(t, err)
	assert.Equal(t, len(left), 2, "what is over is forgotten")

	stderr.Reset()
	d.err = errors.New("no answer")
	h.nameOrphans(t.Context(), d, sb)
	assert.Assert(t, is.Contains(stderr.String(), "it cannot be told whether an earlier command still runs in ralph-a: no answer"))
	alive(nil)
}
