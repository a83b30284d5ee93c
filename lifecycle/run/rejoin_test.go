package run

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// far is an engine on another machine, whose connection can be cut.
type far struct {
	lifecycle.Driver
	mu      sync.Mutex
	cut     bool
	running []lifecycle.Dispatch
}

var errReset = fmt.Errorf("error during connect: %w", syscall.ECONNRESET)

func (f *far) set(cut bool, running ...lifecycle.Dispatch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut, f.running = cut, running
}

func (f *far) Lookup(context.Context, string) (lifecycle.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut {
		return lifecycle.Sandbox{}, errReset
	}
	return lifecycle.Sandbox{Name: "box", State: lifecycle.Running}, nil
}

func (f *far) Dispatches(context.Context, lifecycle.Sandbox) ([]lifecycle.Dispatch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut {
		return nil, errReset
	}
	return f.running, nil
}

// rejoined is a loop whose connection was lost.
func rejoined(t *testing.T, driver lifecycle.Driver) (f *follower, log *runlog.Log, said *bytes.Buffer) {
	t.Helper()
	said = &bytes.Buffer{}
	h := host.Host{StateDir: t.TempDir(), Stderr: said}
	sb := lifecycle.Sandbox{Name: "box", Root: t.TempDir(), State: lifecycle.Running}
	log, err := runlog.Create(h.LogsOf(sb), runlog.Loop{Mode: "build", Dispatch: "x", Started: time.Now()})
	assert.NilError(t, err)
	f = &follower{
		session: session{Host: h, id: "x"}, driver: driver,
		sb: sb, id: "x", command: host.BuildCommand, out: said, grace: remoteGrace,
	}
	return f, log, said
}

func TestLoopIsFollowedOverACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &far{cut: true}
		f, log, said := rejoined(t, driver)
		time.AfterFunc(time.Minute, func() { driver.set(false, lifecycle.Dispatch{ID: "x"}) })
		time.AfterFunc(2*time.Minute, func() { driver.set(true) })
		time.AfterFunc(3*time.Minute, func() {
			assert.Check(t, log.Finish(runlog.LoopEnd{Stop: "complete", ExitCode: 4}))
			driver.set(false)
		})
		code, err := f.rejoin(t.Context(), &resumer{}, nil)
		assert.NilError(t, err)
		assert.Equal(t, code, 4)
		assert.Equal(t, said.String(), strings.Join([]string{
			"Warning: the engine does not answer: waiting for it", "Reconnected: following the loop",
			"Warning: the engine does not answer: waiting for it", "",
		}, "\n"))
	})
}

// The wait ends after an hour, or with Ctrl+C. The loop continues.
func TestWaitForTheEngineEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		sig   os.Signal
		after time.Duration
	}{"hour": {nil, remoteGrace}, "interrupt": {os.Interrupt, time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, _, _ := rejoined(t, &far{cut: true})
				signals := make(chan os.Signal)
				if tc.sig != nil {
					time.AfterFunc(time.Second, func() { signals <- tc.sig })
				}
				began, rec := time.Now(), &resumer{}
				_, err := f.rejoin(t.Context(), rec, signals)
				assert.ErrorIs(t, err, lifecycle.ErrDisconnected)
				assert.Error(t, err, `lost the connection to the engine: "ralph build" may still be running in sandbox box`)
				assert.DeepEqual(t, hint.Of(err), []string{`attach to it with "docker ralph attach box"`})
				assert.Check(t, time.Since(began).Round(time.Minute) == tc.after.Round(time.Minute), "%v", time.Since(began))
				again, diedErr := rec.died(t.Context(), f.sb, 0, err)
				assert.Check(t, !again)
				assert.Equal(t, diedErr, err)
			})
		})
	}
}

// A loop that was not started before a cut is started when the engine answers again.
func TestStartWaitsForTheEngine(t *testing.T) {
	for _, tc := range []struct {
		name   string
		back   time.Duration
		tried  attempted
		err    error
		again  bool
		want   string
		report string
	}{
		{"away", 30 * time.Minute, attempted{}, errReset, true, "", "Warning: the engine does not answer: waiting for it\nReconnected: starting the loop\n"},
		{"cut for a moment", 0, attempted{}, errReset, true, "", "Warning: lost the connection to the engine: retrying\n"},
		{"gone", 2 * time.Hour, attempted{}, errReset, false, `lost the connection to the engine: "ralph build" has not started in sandbox box`, "Warning: the engine does not answer: waiting for it\n"},
		{"gone, perhaps started", 2 * time.Hour, attempted{unknown: true}, errReset, false, `lost the connection to the engine: "ralph build" may still be running in sandbox box`, "Warning: the engine does not answer: waiting for it\n"},
		{"started", 0, attempted{started: true}, errReset, false, errReset.Error(), ""},
		{"another error", 0, attempted{}, errNotStarted, false, errNotStarted.Error(), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				driver, said := &far{cut: tc.back > 0}, &bytes.Buffer{}
				back := time.AfterFunc(tc.back, func() { driver.set(false) })
				defer back.Stop()
				s := &starter{
					session: session{Host: host.Host{StateDir: t.TempDir(), Stderr: said}, id: "x"},
					driver:  driver, command: host.BuildCommand, name: "box", grace: remoteGrace, answered: true,
				}
				again, err := s.again(t.Context(), &tc.tried, tc.err)
				assert.Equal(t, again, tc.again)
				if !tc.again {
					assert.Error(t, err, tc.want)
				}
				assert.Equal(t, said.String(), tc.report)
			})
		})
	}
}

func TestQuestionsAreAskedOnce(t *testing.T) {
	asked := 0
	ask := askOnce(func(context.Context, string) (bool, error) { asked++; return true, nil })
	for _, question := range []string{"Recreate it?", "Recreate it?", "Another?"} {
		yes, err := ask(t.Context(), question)
		assert.NilError(t, err)
		assert.Assert(t, yes)
	}
	assert.Equal(t, asked, 2)
}
