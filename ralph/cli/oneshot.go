package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/wire/event"
)

// Exit codes of a run, as those of a loop.
const (
	exitTimedOut    = 124
	exitInterrupted = 130
)

// outputDrain is how long the output is read after the agent's exit.
const outputDrain = 2 * time.Second

// oneshot is a single run of an agent.
type oneshot struct {
	Name    string
	Command agent.Command
	Env     []string // without Command's variables
	Decoder event.Decoder
	Timeout time.Duration // 0 means no limit
	Getenv  func(string) string
	// Signals interrupt the agent; the second one kills it.
	Signals        <-chan os.Signal
	Stdout, Stderr io.Writer
}

// run runs the agent and returns the exit code, which is not 0 if the agent reported a
// failure.
func (r oneshot) run(ctx context.Context) (int, error) {
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	// Not killed by ctx: wait kills it with all descendants.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), r.Command.Path, r.Command.Args...)
	cmd.Env = append(append([]string{}, r.Env...), r.Command.Env...)
	cmd.WaitDelay = outputDrain
	if r.Command.Stdin != "" {
		cmd.Stdin = strings.NewReader(r.Command.Stdin)
	}
	out := &renderer{decoder: r.Decoder, to: r.Stdout, noKey: make(chan string, 1)}
	errs := &renderer{decoder: event.PlainText(), to: r.Stderr}
	cmd.Stdout, cmd.Stderr = out, errs
	child, err := agent.StartChild(cmd)
	if err != nil {
		return 0, err
	}
	interrupted, noKey := r.wait(ctx, child, out.noKey)
	code, err := child.Wait()
	if errors.Is(err, exec.ErrWaitDelay) { // a background process kept the output open
		err = nil
	}
	if err = errors.Join(err, out.end(), errs.end()); err != nil {
		return 0, err
	}
	switch {
	case interrupted:
		return exitInterrupted, nil
	case noKey != "":
		return exitFailure, agent.KeyError(r.Name, noKey, r.Getenv)
	case ctx.Err() != nil:
		return exitTimedOut, fmt.Errorf("stopping agent %s: the run exceeded its time limit of %s (timeout_minutes)", r.Name, r.Timeout)
	case code == 0 && out.failed:
		return exitFailure, nil
	}
	return code, nil
}

// wait waits for the child's exit. It kills the child on a second signal, after the
// timeout, or if the key was rejected, as the agent would retry for minutes.
func (r oneshot) wait(ctx context.Context, child *agent.Child, refused <-chan string) (interrupted bool, noKey string) {
	for {
		select {
		case <-child.Done():
			select {
			case noKey = <-refused:
			default:
			}
			return interrupted, noKey
		case noKey = <-refused:
			child.Kill()
			return interrupted, noKey
		case <-ctx.Done():
			child.Kill()
			return interrupted, ""
		case sig := <-r.Signals:
			if interrupted || sig != os.Interrupt {
				child.Kill()
				return true, ""
			}
			interrupted = true
			child.Interrupt()
		}
	}
}

// renderer renders an agent's output.
type renderer struct {
	decoder event.Decoder
	to      io.Writer
	failed  bool        // the agent reported a failure
	midLine bool        // the last byte was no newline
	noKey   chan string // message about a rejected key, once; may be nil
	err     error
}

// Write implements [io.Writer]. Errors are returned by end, so that the agent is not
// blocked.
func (s *renderer) Write(p []byte) (int, error) {
	s.show(s.decoder.Decode(p))
	return len(p), nil
}

func (s *renderer) show(events []event.Event) {
	for _, e := range events {
		switch e := e.(type) {
		case event.Result:
			s.failed = e.Failed
		case event.KeyRefused:
			select {
			case s.noKey <- e.Text:
			default:
			}
		}
		text := event.Render(e)
		if text == "" || s.err != nil {
			continue
		}
		_, s.err = io.WriteString(s.to, text)
		s.midLine = !strings.HasSuffix(text, "\n")
	}
}

// end renders the remaining output and ends the line.
func (s *renderer) end() error {
	s.show(s.decoder.End())
	if s.midLine && s.err == nil {
		_, s.err = io.WriteString(s.to, "\n")
	}
	if s.err != nil {
		return fmt.Errorf("writing the agent's output: %w", s.err)
	}
	return nil
}
