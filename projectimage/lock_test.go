package projectimage

import (
	"context"
	"errors"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/output"
)

func TestLockWaits(t *testing.T) {
	out := &output.Buffer{}
	b := &Builder{Engine: &fakeEngine{}, LockDir: t.TempDir(), Progress: Progress{Out: out}}
	unlock, err := b.lock(t.Context(), "a:v1")
	assert.NilError(t, err)
	assert.Equal(t, out.String(), "")

	got := make(chan error)
	go func() {
		second, err := b.lock(t.Context(), "a:v1")
		if err == nil {
			second()
		}
		got <- err
	}()
	out.WaitFor(t, "waiting for another docker ralph to build image a:v1\n")
	select {
	case err := <-got:
		t.Fatalf("two have the lock (%v)", err)
	default:
	}
	unlock()
	assert.NilError(t, <-got)
}

func TestLockPerTagAndEngine(t *testing.T) {
	b := &Builder{Engine: &fakeEngine{}, LockDir: t.TempDir()}
	for _, tag := range []string{"a:v1", "a:v2", "b:v1"} {
		unlock, err := b.lock(t.Context(), tag)
		assert.NilError(t, err)
		defer unlock()
	}
	b.Engine = &fakeEngine{host: "ssh://big"}
	unlock, free, err := b.tryLock("a:v1")
	assert.NilError(t, err)
	assert.Assert(t, free)
	unlock()
}

func TestLockEndsWithTheContext(t *testing.T) {
	out := &output.Buffer{}
	b := &Builder{Engine: &fakeEngine{}, LockDir: t.TempDir(), Progress: Progress{Out: out}}
	unlock, err := b.lock(t.Context(), "a:v1")
	assert.NilError(t, err)
	defer unlock()

	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error)
	go func() {
		_, err := b.lock(ctx, "a:v1")
		got <- err
	}()
	out.WaitFor(t, "waiting")
	cancel()
	err = <-got
	assert.Assert(t, errors.Is(err, context.Canceled), "%v", err)
	assert.ErrorContains(t, err, `waiting for the lock of image "a:v1"`)
}
