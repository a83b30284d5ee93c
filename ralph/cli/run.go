package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/moby/term"

	"github.com/docker-ralph/docker-ralph/config/runflags"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// maxPrompt limits the prompt on standard input, in bytes.
const maxPrompt = 16 << 20

// run implements "ralph run": the agent's interactive interface, or one prompt.
func (o Options) run(ctx context.Context, args []string) int {
	command := runflags.Of(string(agent.Run))
	given, err := command.Parse(args)
	switch {
	case err != nil:
		o.fail(err)
		return exitFailure
	case given[runflags.Help] != "":
		_, _ = fmt.Fprint(o.Stdout, command.Help())
		return exitOK
	}
	j, err := newJob(ctx, agent.Run, loopFlags{model: given[runflags.Model], danger: given[runflags.Danger] != ""})
	if err != nil {
		o.fail(err)
		return exitFailure
	}
	prompt := given[runflags.Prompt]
	if prompt == "" && o.atTerminal() {
		return o.withSession(ctx, func(s *agentEnv) (int, error) { return o.runInterface(ctx, j, s) })
	}
	if j.session.Ask, err = o.prompt(prompt); err == nil {
		err = j.adapter.Check(j.session)
	}
	if err != nil {
		o.fail(err)
		return exitFailure
	}
	return o.withSession(ctx, func(s *agentEnv) (int, error) { return o.runOnce(ctx, j, s) })
}

func (o Options) atTerminal() bool {
	return term.IsTerminal(o.Stdin.Fd()) && term.IsTerminal(o.Stdout.Fd())
}

// withSession runs do in a session without a registered agent and returns the exit code.
func (o Options) withSession(ctx context.Context, do func(*agentEnv) (int, error)) int {
	s, err := o.openSession(ctx)
	if err != nil {
		o.fail(err)
		return exitFailure
	}
	defer s.remove()
	defer o.begin(ctx)() // until then, the host does not answer task commands
	code, err := do(s)
	if err != nil {
		o.fail(err)
		return max(code, exitFailure)
	}
	return code
}

// prompt joins the prompt of the command line and standard input.
func (o Options) prompt(flag string) (string, error) {
	parts := []string{flag}
	if !term.IsTerminal(o.Stdin.Fd()) {
		piped, err := io.ReadAll(io.LimitReader(o.Stdin, maxPrompt+1))
		// The input may be closed or unreadable.
		if err != nil && flag == "" {
			return "", fmt.Errorf("reading the prompt: %w", err)
		}
		if len(piped) > maxPrompt {
			return "", fmt.Errorf("the prompt on standard input is longer than %d MiB", maxPrompt>>20)
		}
		parts = append(parts, strings.TrimRight(string(piped), "\n"))
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return strings.TrimSpace(s) == "" })
	if len(parts) == 0 {
		return "", hint.Wrap(errors.New("no terminal and no prompt"), "pass a prompt with -p or on standard input")
	}
	return strings.Join(parts, "\n\n"), nil
}

// ready completes the job for a session. The prompts are read only once: a run must not
// change those of the next.
func (j *job) ready(s *agentEnv) (err error) {
	j.session.Program = s.self
	j.session.Env = s.environ()
	if j.session.Prompts, err = j.prompts(s.top); err != nil {
		return err
	}
	j.session.TempDir, err = s.tempDir()
	return err
}

// runInterface runs the agent's interactive interface.
func (o Options) runInterface(ctx context.Context, j *job, s *agentEnv) (int, error) {
	if err := j.ready(s); err != nil {
		return 0, err
	}
	command, err := j.adapter.Interactive(ctx, j.session)
	if err != nil {
		return 0, err
	}
	o.warn(command.Warning)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command.Path, command.Args...)
	cmd.Env = append(slices.Clone(j.session.Env), command.Env...)
	return o.foreground(cmd)
}

// runOnce runs the agent with one prompt.
func (o Options) runOnce(ctx context.Context, j *job, s *agentEnv) (int, error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	defer catchBrokenPipe()()
	j.prepareSandbox()
	if err := j.ready(s); err != nil {
		return 0, err
	}
	command, err := j.adapter.Prepare(ctx, j.session)
	if err != nil {
		return 0, err
	}
	o.warn(command.Warning)
	code, err := oneshot{
		Name: j.adapter.Name(), Command: command, Env: j.session.Env, Decoder: j.adapter.Decoder(),
		Timeout: time.Duration(j.guest.TimeoutSeconds) * time.Second, Getenv: os.Getenv, Signals: signals,
		Stdout: o.Stdout, Stderr: o.Stderr,
	}.run(ctx)
	if errors.Is(err, syscall.EPIPE) {
		err = errors.New("output was closed")
	}
	return code, err
}

func (o Options) warn(message string) {
	if message != "" {
		_, _ = fmt.Fprintf(o.Stderr, "Warning: %s\n", termsafe.Strip(message))
	}
}
