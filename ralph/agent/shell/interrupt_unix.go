//go:build unix

package shell

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// interrupts notices the signals that end a run. A step gets them at the same
// moment as this process, in which they take their way through several threads: on
// a busy machine a step can have ended because of one before ctx has.
type interrupts chan os.Signal

// barrier is a signal that nobody sends but interrupts itself. It has a greater
// number than those that end a run.
const barrier = syscall.SIGIO

// arrival bounds the wait for a signal of our own.
const arrival = time.Second

func watchInterrupts() interrupts {
	i := make(interrupts, 16)
	signal.Notify(i, os.Interrupt, syscall.SIGTERM, barrier)
	return i
}

func (i interrupts) stop() { signal.Stop(i) }

// came reports whether one has come before now. Signals are handed on in the order of
// their numbers: when the barrier has come, so has an interrupt that was sent
// before it.
func (i interrupts) came() bool {
	if err := syscall.Kill(os.Getpid(), barrier); err != nil {
		return false
	}
	patience := time.After(arrival)
	came := false
	for {
		select {
		case sig := <-i:
			if sig == barrier {
				return came
			}
			came = true
		case <-patience:
			return came
		}
	}
}
