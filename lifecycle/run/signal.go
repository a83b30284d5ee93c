package run

import (
	"context"
	"errors"
	"os"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// forward delivers signals to a process until the returned function is called. The context of the process ends if the
// sandbox does not answer: nothing inside will end the process then.
func (h session) forward(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox, id string, signals <-chan os.Signal) (_ context.Context, stop func()) {
	ctx, giveUp := context.WithCancelCause(ctx)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case sig := <-signals:
				if err := h.deliver(ctx, driver, sb, sig, id); noAnswer(err) {
					giveUp(errNoAnswer)
				}
			}
		}
	}()
	return ctx, func() { giveUp(nil) }
}

// deliver signals a process, even if it is still starting.
func (h session) deliver(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox, sig os.Signal, id string) error {
	asked, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	for {
		err := lifecycle.Signal(asked, driver, sb, sig, id)
		if errors.Is(err, lifecycle.ErrNoProcess) && pause(asked) == nil {
			continue
		}
		if err != nil && ctx.Err() == nil {
			h.Warn(err)
		}
		return err
	}
}
