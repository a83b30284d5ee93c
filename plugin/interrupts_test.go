package plugin

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
)

func newInterrupts(t *testing.T) (*Interrupts, chan int) {
	t.Helper()
	codes := make(chan int, 4)
	ctx, cancel := context.WithCancel(t.Context())
	return &Interrupts{ctx: ctx, cancel: cancel, exit: func(code int) { codes <- code }, lost: make(chan struct{})}, codes
}

func TestFirstSignalCancelsSecondEnds(t *testing.T) {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		synctest.Test(t, func(t *testing.T) {
			i, codes := newInterrupts(t)
			i.take(sig)
			assert.ErrorIs(t, i.Context().Err(), context.Canceled)
			i.take(sig)
			assert.Equal(t, len(codes), 0, "the same signal, sent to the group and by a parent")
			<-time.After(echo)
			i.take(sig)
			assert.Equal(t, <-codes, 130)
		})
	}
}

func TestSignalsAreForwarded(t *testing.T) {
	i, codes := newInterrupts(t)
	signals, stop := i.Forward(t.Context())
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		i.take(sig)
		assert.Equal(t, <-signals, sig)
	}
	for range 10 { // nobody listens: nothing blocks
		i.take(os.Interrupt)
	}
	assert.NilError(t, i.Context().Err())
	assert.Equal(t, len(codes), 0)
	stop()
	i.take(os.Interrupt)
	assert.ErrorIs(t, i.Context().Err(), context.Canceled)
}

// Without a terminal the Docker CLI ends the context instead of passing the
// signal on.
func TestEndOfContextIsAnInterrupt(t *testing.T) {
	i, _ := newInterrupts(t)
	ctx, cancel := context.WithCancel(i.Context())
	signals, stop := i.Forward(ctx)
	defer stop()
	cancel()
	assert.Equal(t, <-signals, os.Interrupt)
}

// Ctrl+C in a pipeline comes both ways, but is one.
func TestInterruptIsForwardedOnce(t *testing.T) {
	for _, first := range []string{"signal", "context"} {
		t.Run(first, func(t *testing.T) {
			i, _ := newInterrupts(t)
			ctx, cancel := context.WithCancel(i.Context())
			signals, stop := i.Forward(ctx)
			defer stop()
			if first == "signal" {
				i.take(os.Interrupt)
				cancel()
			} else {
				cancel()
				i.take(os.Interrupt)
			}
			assert.Equal(t, <-signals, os.Interrupt)
			select {
			case sig := <-signals:
				t.Fatalf("a second %v", sig)
			case <-time.After(3 * echo):
			}
		})
	}
}

func TestLostTerminalDoesNotCancelASurvivor(t *testing.T) {
	i, codes := newInterrupts(t)
	ctx, cancel := context.WithCancel(i.Context())
	survivor, lost := i.Survive(ctx)
	i.take(syscall.SIGHUP)
	i.take(syscall.SIGHUP)
	<-lost
	cancel() // the Docker CLI is gone as well
	select {
	case <-survivor.Done():
		t.Fatal("it has ended")
	case <-time.After(2 * echo):
	}
	assert.NilError(t, i.Context().Err())
	assert.Equal(t, len(codes), 0)
}

func TestSignalCancelsASurvivor(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(i *Interrupts, cancel func())
	}{
		{"a signal", func(i *Interrupts, _ func()) { i.take(os.Interrupt) }},
		{"the Docker CLI, which waits for us", func(_ *Interrupts, cancel func()) { cancel() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i, _ := newInterrupts(t)
			ctx, cancel := context.WithCancel(i.Context())
			defer cancel()
			survivor, lost := i.Survive(ctx)
			tc.end(i, cancel)
			<-survivor.Done()
			select {
			case <-lost:
				t.Fatal("the terminal is lost")
			default:
			}
		})
	}
}

// A program that was hit by the signal for its whole group is no failure, also if
// its end is known before the signal.
func TestExplainProgramTerminatedBySameSignal(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		signal       bool
		want         bool
	}{
		{"with us", "kill -TERM $$", true, true},
		{"alone", "kill -TERM $$", false, false},
		{"by another signal", "kill -KILL $$", true, false},
		{"by itself", "exit 1", true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			i, _ := newInterrupts(t)
			err := fmt.Errorf("making it: %w", exec.CommandContext(t.Context(), "sh", "-c", tc.script).Run())
			if tc.signal {
				time.AfterFunc(echo/10, func() { i.take(syscall.SIGTERM) })
			}
			assert.Equal(t, i.Explain(err), tc.want)
		})
	}
}
