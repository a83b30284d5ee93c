package commits

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// breakable is a sandbox whose git directory is broken until it is restored.
type breakable struct {
	lifecycle.Driver
	listing string

	mu       sync.Mutex
	busy     bool
	failed   error
	restored bool
	asked    chan struct{} // is closed when Busy is called
}

func (b *breakable) Busy(context.Context, lifecycle.Sandbox) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asked != nil {
		close(b.asked)
		b.asked = nil
	}
	return b.busy, b.failed
}

func (b *breakable) Dispatches(context.Context, lifecycle.Sandbox) ([]lifecycle.Dispatch, error) {
	return nil, b.failed
}

func (b *breakable) Exec(_ context.Context, _ lifecycle.Sandbox, p lifecycle.Process) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	script := strings.Join(p.Args, " ")
	if strings.Contains(script, "tar -x") {
		if b.restored = true; b.busy {
			return 0, errors.New("restored under a command")
		}
	}
	if p.Stdin != nil {
		_, _ = io.Copy(io.Discard, p.Stdin)
	}
	if strings.Contains(script, "broken()") {
		if !b.restored {
			_, _ = io.WriteString(p.Stderr, "not a git directory\n")
			return 76, nil
		}
		_, _ = io.WriteString(p.Stdout, b.listing)
	}
	return 0, nil
}

// A repair under another command would lose what that commits.
func TestGitDirectoryIsRepairedWhenNothingRuns(t *testing.T) {
	wt, tip := repository(t)
	var said bytes.Buffer
	h := host.Host{StateDir: t.TempDir(), Stderr: &said}
	sb := lifecycle.Sandbox{Name: "ralph-test", Root: wt.Root}
	b := &breakable{listing: tip + " refs/heads/main\n- HEAD refs/heads/main\n\n", busy: true}
	repo, err := gitsync.Open(wt, sb.Name, h.StateDir)
	assert.NilError(t, err)
	g := &Git{Host: h, Driver: b, Repo: repo, aside: repo}
	push := func(alone bool) error { return g.Push(t.Context(), sb, host.BuildCommand, alone) }

	for _, alone := range []bool{true, false} {
		err = push(alone)
		assert.Assert(t, IsStillBusy(err) && IsBroken(err), "%v", err)
		assert.DeepEqual(t, hint.Of(err), []string{`wait for it, or stop it with "docker ralph stop ralph-test"`})
		b.busy = false // but another agent is about to start
	}
	b.failed = errors.New("no engine")
	err = push(true)
	assert.ErrorIs(t, err, b.failed)
	assert.Assert(t, !IsStillBusy(err))
	assert.ErrorIs(t, g.AwaitIdle(t.Context(), sb), b.failed)
	assert.ErrorContains(t, g.Fetch(t.Context(), sb), "commits stay in sandbox ralph-test: the git directory")
	assert.Assert(t, !b.restored)

	leave, err := h.ShareAgents(t.Context(), sb.Name, func(bool) error { return nil })
	assert.NilError(t, err)
	asked := make(chan struct{})
	b.failed, b.busy, b.asked = nil, true, asked
	waited := make(chan error, 1)
	go func() { waited <- g.AwaitIdle(t.Context(), sb) }()
	select {
	case <-asked:
		t.Error("an agent works there")
	case <-time.After(host.PollInterval + host.PollInterval/5):
	}
	leave()
	<-asked
	b.mu.Lock()
	b.busy = false
	b.mu.Unlock()
	assert.NilError(t, <-waited)
	assert.NilError(t, push(true))
	assert.Assert(t, b.restored)
	assert.Assert(t, is.Contains(said.String(), "Warning: the git directory of sandbox ralph-test is broken: not a git directory; it was restored from your repository"))
}
