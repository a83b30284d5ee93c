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

// Exit codes of one run besides the agent's own: those of a loop that ends for the
// same reason.
const (
	exitTimedOut    = 124
	exitInterrupted = 130
)

// outputDrain is how long the agent's output is read after it has ended itself.
const outputDrain = 2 * time.Second

// oneRun is one run of an agent, whose report is shown as a loop does.
type oneRun struct {
	Name    string
	Command agent.Command
	Env     []string // all of the environment but what Command adds
	Decoder event.Decoder
	// Timeout bounds the run; 0 means no bound.
	Timeout time.Duration
	// Getenv reads the agent's environment.
	Getenv func(string) string
	// Signals interrupt the agent; the second one ends it at once.
	Signals        <-chan os.Signal
	Stdout, Stderr io.Writer
}

// do runs the agent to its end and returns the exit code. An agent that calls
// its run a failure has one other than 0.
func (r oneRun) do(ctx context.Context) (int, error) {
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	// Not killed by ctx: proc does it, with all descendants.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), r.Command.Path, r.Command.Args...)
	cmd.Env = append(append([]string{}, r.Env...), r.Command.Env...)
	cmd.WaitDelay = outputDrain
	if r.Command.Stdin != "" {
		cmd.Stdin = strings.NewReader(r.Command.Stdin)
	}
	out := &shown{decoder: r.Decoder, to: r.Stdout, noKey: make(chan string, 1)}
	errs := &shown{decoder: event.PlainText(), to: r.Stderr}
	cmd.Stdout, cmd.Stderr = out, errs
	child, err := agent.StartChild(cmd)
	if err != nil {
		return 0, err
	}
	interrupted, noKey := r.wait(ctx, child, out.noKey)
	code, err := child.Wait()
	if errors.Is(err, exec.ErrWaitDelay) { // something of it kept the output open
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

// wait waits for the child to end, or ends it, and says whether a signal asked for
// that, or a refused key made it necessary: the agent would try again for minutes.
func (r oneRun) wait(ctx context.Context, child *agent.Child, refused <-chan string) (interrupted bool, noKey string) {
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

// shown renders what an agent prints.
type shown struct {
	decoder event.Decoder
	to      io.Writer
	failed  bool        // the agent called its run a failure, in its last word
	midLine bool        // the last byte was no newline
	noKey   chan string // what was said about a refused key, once; may be nil
	err     error
}

// Write implements [io.Writer]. It takes everything, so that the agent is not
// stuck: what cannot be written is an error at the end.
func (s *shown) Write(p []byte) (int, error) {
	s.show(s.decoder.Decode(p))
	return len(p), nil
}

func (s *shown) show(events []event.Event) {
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

// end shows what is left, and ends the line.
func (s *shown) end() error {
	s.show(s.decoder.End())
	if s.midLine && s.err == nil {
		_, s.err = io.WriteString(s.to, "\n")
	}
	if s.err != nil {
		return fmt.Errorf("writing the agent's output: %w", s.err)
	}
	return nil
}
