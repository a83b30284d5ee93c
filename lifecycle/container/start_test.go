package container

import (
	"context"
	"errors"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
)

// failingStart is an engine that starts no container.
type failingStart struct {
	engine.API
	err error
}

func (f failingStart) ContainerStart(context.Context, string, client.ContainerStartOptions) (client.ContainerStartResult, error) {
	return client.ContainerStartResult{}, f.err
}

// A sandbox that can never be started again is reported as stuck, and so recreated.
func TestStartOfAStuckSandbox(t *testing.T) {
	for message, stuck := range map[string]bool{
		"container with given ID already exists":           true,
		"network 4f2b1c not found":                         true,
		"failed to create task: no space left on device":   false,
		"error gathering device information: not a device": false,
	} {
		d := &Driver{API: failingStart{err: errors.New(message)}}
		err := d.Start(t.Context(), lifecycle.Sandbox{Name: "ralph-a", ID: "x"})
		assert.ErrorContains(t, err, message)
		assert.Equal(t, errors.Is(err, lifecycle.ErrStuck), stuck, message)
	}
}
