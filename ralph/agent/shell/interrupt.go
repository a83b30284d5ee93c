package shell

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// interrupts detects signals earlier than ctx: a step receives them at the same time as
// this process and may exit before ctx is done.
type interrupts chan os.Signal

// barrier is a signal that only this type sends. Its number is greater than those of the
// interrupts.
const barrier = syscall.SIGIO

// barrierTimeout bounds the wait for the barrier.
const barrierTimeout = time.Second

func watchInterrupts() interrupts {
	i := make(interrupts, 16)
	signal.Notify(i, os.Interrupt, syscall.SIGTERM, barrier)
	return i
}

func (i interrupts) stop() { signal.Stop(i) }

// received reports whether an interrupt was sent. Signals are delivered in the order of
// their numbers: after the barrier, all earlier interrupts have arrived.
func (i interrupts) received() bool {
	if err := syscall.Kill(os.Getpid(), barrier); err != nil {
		return false
	}
	timeout := time.After(barrierTimeout)
	received := false
	for {
		select {
		case sig := <-i:
			if sig == barrier {
				return received
			}
			received = true
		case <-timeout:
			return received
		}
	}
}
