package container

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
)

// cutStart is an engine whose connection breaks while an exec is started.
type cutStart struct {
	engine.API
	reached  bool // the request came through
	created  int
	attached []string
}

func (c *cutStart) ExecCreate(context.Context, string, client.ExecCreateOptions) (client.ExecCreateResult, error) {
	c.created++
	return client.ExecCreateResult{ID: string(rune('a' + c.created - 1))}, nil
}

func (c *cutStart) ExecAttach(_ context.Context, id string, _ client.ExecAttachOptions) (client.ExecAttachResult, error) {
	c.attached = append(c.attached, id)
	if len(c.attached) == 1 {
		return client.ExecAttachResult{}, io.ErrUnexpectedEOF
	}
	return client.ExecAttachResult{}, nil
}

func (c *cutStart) ExecInspect(context.Context, string, client.ExecInspectOptions) (client.ExecInspectResult, error) {
	return client.ExecInspectResult{Running: c.reached}, nil
}

func TestProcessIsStartedOnce(t *testing.T) {
	for _, reached := range []bool{false, true} {
		api := &cutStart{reached: reached}
		d, sb := &Driver{API: api}, lifecycle.Sandbox{ID: "1", Name: "box"}
		_, _, err := d.start(t.Context(), sb, "x", client.ExecCreateOptions{})
		unstarted, is := errors.AsType[*lifecycle.NotStartedError](err)
		assert.Assert(t, is && unstarted.Unknown, "%v", err)
		_, _, err = d.start(t.Context(), sb, "x", client.ExecCreateOptions{})
		more, begunErr := d.begun(t.Context(), sb, nil)
		assert.NilError(t, begunErr)
		assert.Equal(t, len(more) == 1, reached, "%v", more)
		more, begunErr = d.begun(t.Context(), sb, []lifecycle.Dispatch{{ID: "x"}})
		assert.NilError(t, begunErr)
		assert.Equal(t, len(more), 0)
		if reached {
			assert.Assert(t, engine.ConnectionLost(err), "%v", err)
			_, is = errors.AsType[*lifecycle.NotStartedError](err)
			assert.Assert(t, !is)
			assert.DeepEqual(t, api.attached, []string{"a"})
		} else {
			assert.NilError(t, err)
			assert.DeepEqual(t, api.attached, []string{"a", "a"}) // the engine starts it once
		}
		_, _, err = d.start(t.Context(), sb, "x", client.ExecCreateOptions{}) // of a later attempt
		assert.NilError(t, err)
		assert.Equal(t, api.created, 2)
	}
}
