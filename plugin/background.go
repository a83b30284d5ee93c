package plugin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/docker/cli/cli"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// backgroundEnv marks the process that runs a loop in the background.
const backgroundEnv = "DOCKER_RALPH_BACKGROUND"

// Values of backgroundEnv.
const (
	backgroundAsks   = "asks"   // the foreground process answers questions
	backgroundSilent = "silent" // no questions
)

// message is sent by the background process to the one in the foreground.
type message struct {
	// Ask is a question, to be answered with an [answer].
	Ask string `json:"ask,omitempty"`
	// Ready is the sandbox in which the loop runs. It is the last message.
	Ready string `json:"ready,omitempty"`
}

type answer struct {
	Yes bool `json:"yes"`
}

// background is, in such a process, the line to the one that has started it.
type background struct {
	messages io.WriteCloser
	answers  io.ReadCloser
	asks     bool
}

// say sends a message.
func (b *background) say(m message) error {
	if err := json.NewEncoder(b.messages).Encode(m); err != nil {
		return fmt.Errorf("reporting to the foreground: %w", err)
	}
	return nil
}

// confirm asks the user through the process that has started this one.
func (b *background) confirm(answers *bufio.Reader) func(context.Context, string) (bool, error) {
	return func(ctx context.Context, question string) (bool, error) {
		if err := b.say(message{Ask: question}); err != nil {
			return false, err
		}
		got := make(chan answer, 1)
		go func() {
			var a answer
			line, _ := answers.ReadBytes('\n')
			_ = json.Unmarshal(line, &a) // an end is a no
			got <- a
		}()
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case a := <-got:
			return a.Yes, nil
		}
	}
}

// ready reports that the loop runs, and closes the pipes.
func (b *background) ready(sandbox string) {
	_ = b.say(message{Ready: sandbox}) // the other end may be closed
	_ = b.messages.Close()
	_ = b.answers.Close()
}

// detachable lets a loop continue without its terminal. The context that it returns
// does not end with the terminal.
func (d dispatcher) detachable(ctx context.Context, h *host.Host, ours *background) context.Context {
	ctx, lost := d.interrupts.Survive(ctx)
	h.Background = &host.Background{Lost: lost, ReleaseTTY: releaseTTY(saveTerminal())}
	if ours == nil {
		return ctx
	}
	h.Stdin, h.Terminal, h.Confirm = nil, nil, nil
	h.Background.Ready = ours.ready
	if ours.asks {
		h.Confirm = ours.confirm(bufio.NewReader(ours.answers))
	}
	return ctx
}

// detach starts this command once more, in the background, and stays until its
// loop has begun.
func (d dispatcher) detach(ctx context.Context, name string) error {
	if !host.IsLoop(name) {
		return errors.New("--detach works with plan and build only")
	}
	if !canDetach {
		return hint.Wrap(errors.New("--detach is not supported on this system"), "detach with Ctrl+P, Ctrl+Q")
	}
	confirm := confirmer(d.cli, newInput(os.Stdin))
	line, err := startBackground(confirm != nil)
	if err != nil {
		return fmt.Errorf("starting the loop in the background: %w", err)
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-ctx.Done():
			line.interrupt()
		case <-over:
		}
	}()
	sandbox, err := line.listen(ctx, confirm)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(d.cli.Out(), sandbox)
	_, _ = fmt.Fprintf(d.cli.Err(), "ralph %s is running in the background\n"+
		"Hint: follow it with \"docker ralph logs -f\", attach with \"docker ralph attach\", stop it with \"docker ralph stop\"\n", name)
	return nil
}

// foreground is the line to a process in the background.
type foreground struct {
	messages  *bufio.Reader
	answers   io.WriteCloser
	interrupt func()
	// wait waits for the end of the process and returns its exit code.
	wait func() (int, error)
}

// listen answers questions until the loop has begun, and returns its sandbox. A
// process that ends before has said itself why.
func (f *foreground) listen(ctx context.Context, confirm func(context.Context, string) (bool, error)) (sandbox string, err error) {
	for {
		var m message
		line, err := f.messages.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &m)
		}
		switch {
		case err != nil:
			code, err := f.wait()
			if err != nil {
				return "", fmt.Errorf("waiting for the loop in the background: %w", err)
			}
			return "", cli.StatusError{StatusCode: max(code, 1)}
		case m.Ready != "":
			return m.Ready, nil
		case m.Ask != "" && confirm != nil:
			yes, err := confirm(ctx, m.Ask)
			if err == nil {
				err = json.NewEncoder(f.answers).Encode(answer{yes})
			}
			if err != nil {
				f.interrupt()
				_, _ = f.wait()
				return "", err
			}
		}
	}
}
