package plugin

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Interrupts turns SIGINT and SIGTERM into the end of a context, and, while a
// command runs in a sandbox, into signals for that command. The second one
// that nothing is done about ends the program at once.
type Interrupts struct {
	ctx    context.Context
	cancel context.CancelFunc
	exit   func(code int)

	lost chan struct{} // closed when the terminal is lost

	mu       sync.Mutex
	forward  chan<- os.Signal // nil unless signals are handed over
	last     time.Time        // when the last signal came
	survives bool             // a lost terminal is no end
}

// NewInterrupts starts catching signals. exit exits the program.
func NewInterrupts(ctx context.Context, exit func(code int)) *Interrupts {
	ctx, cancel := context.WithCancel(ctx)
	i := &Interrupts{ctx: ctx, cancel: cancel, exit: exit, lost: make(chan struct{})}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // under nohup nothing is lost
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		for sig := range signals {
			i.take(sig)
		}
	}()
	return i
}

// Context ends with the first signal that is not handed over.
func (i *Interrupts) Context() context.Context { return i.ctx }

// Lost is closed when the terminal is lost, and that is no end.
func (i *Interrupts) Lost() <-chan struct{} { return i.lost }

// ExitCode is that of a program which was interrupted.
const ExitCode = 130

func (i *Interrupts) take(sig os.Signal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if sig == syscall.SIGHUP {
		if i.survives {
			i.lose()
			return
		}
		sig = syscall.SIGTERM
	}
	repeated := time.Since(i.last) < echo // sent to the process group, and by a parent
	i.last = time.Now()
	switch {
	case i.forward != nil:
		select {
		case i.forward <- sig:
		default: // enough signals are pending
		}
	case i.ctx.Err() != nil && !repeated:
		i.exit(ExitCode)
	case i.ctx.Err() != nil:
	default:
		i.cancel()
	}
}

// echo is the maximum time between the signal and the end of the context after one
// Ctrl+C.
const echo = 200 * time.Millisecond

// Forward delivers signals until stop is called. Without a terminal the Docker CLI ends
// ctx instead of passing a signal on. That counts as a SIGINT, unless the signal has
// arrived as well, as when Ctrl+C reaches all processes of a pipeline.
func (i *Interrupts) Forward(ctx context.Context) (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 4)
	i.mu.Lock()
	i.forward = c
	i.mu.Unlock()
	done := make(chan struct{})
	go func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		select {
		case <-done:
		case <-time.After(echo):
			if i.ctx.Err() == nil && !i.cameWithin(2*echo) {
				c <- os.Interrupt
			}
		}
	}()
	return c, func() {
		close(done)
		i.mu.Lock()
		i.forward = nil
		i.mu.Unlock()
	}
}

// Explain reports whether err is of a program that was terminated by a signal to the
// whole process group, which also terminates this one. A program that has just been
// started is still in the group. Its exit may be reported before the signal.
func (i *Interrupts) Explain(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || !slices.Contains([]syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}, status.Signal()) {
		return false
	}
	select {
	case <-i.ctx.Done():
		return true
	case <-time.After(echo):
		return i.cameWithin(2 * echo)
	}
}

func (i *Interrupts) cameWithin(d time.Duration) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return !i.last.IsZero() && time.Since(i.last) < d
}

// lose records that the terminal is lost. The caller holds the lock.
func (i *Interrupts) lose() {
	select {
	case <-i.lost:
	default:
		close(i.lost)
	}
}

// Survive returns a context that does not end when the terminal is lost, and with it
// the Docker CLI; lost is closed instead. Otherwise it ends with ctx.
func (i *Interrupts) Survive(ctx context.Context) (survivor context.Context, lost <-chan struct{}) {
	i.mu.Lock()
	i.survives = true
	i.mu.Unlock()
	// The reader of the output can exit first.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	docker := os.Getppid()
	survivor, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		<-ctx.Done()
		if !i.isLost(docker) {
			cancel()
		}
	}()
	return survivor, i.lost
}

// isLost reports whether the Docker CLI has exited, at the end of its context. If it
// was signalled, it waits for the plugin instead.
func (i *Interrupts) isLost(docker int) bool {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(echo); time.Now().Before(end); {
		select {
		case <-i.lost:
			return true
		case <-i.ctx.Done():
			return false
		case <-again.C:
		}
		if i.cameWithin(2 * echo) {
			return false
		}
		if os.Getppid() != docker {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.lose()
			return true
		}
	}
	return false
}
