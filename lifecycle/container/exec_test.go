package container

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
)

// lateEngine starts a process late, and drops earlier requests.
type lateEngine struct {
	engine.API
	there       time.Time
	calls, lost int
	size        client.ExecResizeOptions
}

func (e *lateEngine) ExecResize(_ context.Context, _ string, size client.ExecResizeOptions) (client.ExecResizeResult, error) {
	if e.calls++; time.Now().Before(e.there) {
		e.lost++
		return client.ExecResizeResult{}, nil
	}
	e.size = size
	return client.ExecResizeResult{}, nil
}

// window is a terminal whose size changes.
type window struct {
	lifecycle.Terminal
	rows    uint
	resized chan struct{}
}

func (w *window) Size() (height, width uint) { return w.rows, 80 }

func (w *window) Resized() <-chan struct{} { return w.resized }

func TestTerminalSizeIsRepeatedUntilTheProcessStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &lateEngine{there: time.Now().Add(2 * time.Second)}
		w := &window{rows: 24, resized: make(chan struct{}, 1)}
		go (&Driver{API: engine}).followSize(t.Context(), "exec", w)
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Assert(t, engine.lost > 0)
		assert.Equal(t, engine.size, client.ExecResizeOptions{Height: 24, Width: 80})
		configHash := engine.calls
		assert.Assert(t, configHash <= 11, "%d", configHash)
		<-time.After(time.Hour)
		assert.Equal(t, engine.calls, configHash)

		w.rows = 50
		w.resized <- struct{}{}
		synctest.Wait()
		assert.Equal(t, engine.size, client.ExecResizeOptions{Height: 50, Width: 80})
	})
}
