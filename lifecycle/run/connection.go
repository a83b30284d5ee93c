package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

const (
	// engineGrace is how long an engine may be unreachable, and remoteGrace one on another machine.
	engineGrace = 2 * time.Minute
	remoteGrace = time.Hour
	// answerEvery is how often an engine on another machine is asked whether the connection works,
	// and answerTimeout how long it may take while a command runs.
	answerEvery   = 10 * time.Second
	answerTimeout = 20 * time.Second
	// sendTimeout is the same before the start of a command: what is sent to the sandbox can delay
	// an answer.
	sendTimeout = 2 * time.Minute
)

// errNoAnswer is the cause of a connection that is given up: a laptop that was asleep, or a
// network that drops packets, does not close it.
var errNoAnswer = fmt.Errorf("no answer from the engine: %w", io.ErrUnexpectedEOF)

// remote reports whether the driver's engine is on another machine.
func remote(driver lifecycle.Driver) bool {
	d, ok := driver.(*container.Driver)
	return ok && !engine.Local(d.Host)
}

// grace returns how long the driver's engine may be unreachable.
func grace(driver lifecycle.Driver) time.Duration {
	if remote(driver) {
		return remoteGrace
	}
	return engineGrace
}

// noAnswer reports whether the engine has not answered a question that had a timeout.
func noAnswer(err error) bool {
	return engine.ConnectionLost(err) || errors.Is(err, context.DeadlineExceeded)
}

// watchConnection returns a context that is canceled when an engine on another machine does
// not answer any more, until stop is called.
func watchConnection(ctx context.Context, driver lifecycle.Driver, sandbox string, timeout time.Duration) (_ context.Context, stop func()) {
	if !remote(driver) {
		return ctx, func() {}
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	watching, stop := context.WithCancel(ctx)
	go func() {
		tick := time.NewTicker(answerEvery)
		defer tick.Stop()
		for {
			select {
			case <-watching.Done():
				return
			case <-tick.C:
			}
			asked, done := context.WithTimeout(watching, timeout)
			_, err := driver.Lookup(asked, sandbox)
			if err != nil && watching.Err() == nil && errors.Is(asked.Err(), context.DeadlineExceeded) {
				giveUp(errNoAnswer)
			}
			done()
		}
	}()
	return ctx, stop
}

// givenUp replaces the error of a step by that of the connection, if that was given up.
func givenUp(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errNoAnswer) {
		return errNoAnswer
	}
	return err
}

// disconnected is the error for a command that may still run in a sandbox.
func disconnected(command, sandbox string) error {
	err := fmt.Errorf("%w: %q may still be running in sandbox %s", lifecycle.ErrDisconnected, "ralph "+command, sandbox)
	switch {
	case host.IsLoop(command):
		return hint.Wrap(err, "attach to it with %q", "docker ralph attach "+sandbox)
	}
	return hint.Wrap(err, "stop it with %q", "docker ralph stop "+sandbox)
}

// starter retries the steps before the start of a loop.
type starter struct {
	session
	driver   lifecycle.Driver
	command  string
	name     string        // of the sandbox
	grace    time.Duration // how long the engine may be unreachable
	answered bool          // the engine has answered this command
	end      time.Time     // of the retries; zero without any
}

// again reports whether to repeat an attempt that has lost the engine before it has started the loop.
// It waits for the engine. The error replaces the one of the attempt.
func (s *starter) again(ctx context.Context, tried *attempted, err error) (bool, error) {
	if tried.started {
		s.end = time.Time{}
	}
	if tried.started || !s.answered || !host.IsLoop(s.command) || !engine.ConnectionLost(err) || ctx.Err() != nil {
		return false, err
	}
	if s.end.IsZero() {
		s.end = time.Now().Add(s.grace)
	}
	away, answers := awaitEngine(ctx, s.Host, s.driver, s.name, s.end, func() bool { return s.Stopped(s.name, s.id) })
	switch {
	case answers && away:
		s.Report("Reconnected: starting the loop")
	case answers:
		s.Report("Warning: lost the connection to the engine: retrying")
	}
	if answers {
		return true, nil
	}
	if tried.unknown {
		return false, disconnected(s.command, s.name)
	}
	return false, hint.Wrap(fmt.Errorf("%w: %q has not started in sandbox %s", lifecycle.ErrDisconnected, "ralph "+s.command, s.name),
		"run the command again")
}

// awaitEngine waits until the engine of a sandbox answers. away reports that it did not at first.
func awaitEngine(ctx context.Context, h host.Host, driver lifecycle.Driver, sandbox string, end time.Time, stopped func() bool) (away, answers bool) {
	for time.Now().Before(end) && !stopped() && pause(ctx) == nil {
		asked, cancel := context.WithTimeout(ctx, answerTimeout)
		_, err := driver.Lookup(asked, sandbox)
		cancel()
		switch {
		case ctx.Err() != nil:
			return away, false
		case !noAnswer(err):
			return away, true
		case !away:
			away = true
			h.Report("Warning: the engine does not answer: waiting for it")
		}
	}
	return away, false
}

// askOnce returns the answers of the user, and asks no question twice.
func askOnce(ask func(context.Context, string) (bool, error)) func(context.Context, string) (bool, error) {
	if ask == nil {
		return nil
	}
	answers := map[string]bool{}
	return func(ctx context.Context, question string) (bool, error) {
		if answer, known := answers[question]; known {
			return answer, nil
		}
		answer, err := ask(ctx, question)
		if err == nil {
			answers[question] = answer
		}
		return answer, err
	}
}
