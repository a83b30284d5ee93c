package microvm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/printable"
)

// Client is one of the two programs on this machine.
type Client struct {
	Path string
	// Args stand before every command, such as "sandbox".
	Args []string
	// Typed is how a user would call it.
	Typed string
}

// CallError is a call of the program that did not go well.
type CallError struct {
	Typed          string // the command, as a user would type it
	Code           int    // exit code; -1 when it was ended from outside
	Stdout, Stderr string
	Limit          time.Duration // the time that it exceeded; 0 if it did not
	Err            error
}

// Error shows the program's own words.
func (e *CallError) Error() string {
	switch words := e.Words(); {
	case e.Limit > 0:
		return fmt.Sprintf("%q did not answer within %s", e.Typed, e.Limit)
	case words != "":
		return fmt.Sprintf("%q: %s", e.Typed, words)
	default:
		return fmt.Sprintf("%q: %v", e.Typed, e.Err)
	}
}

// Unwrap implements errors.
func (e *CallError) Unwrap() error { return e.Err }

// Says tells whether the program said one of these texts, whatever their case.
func (e *CallError) Says(texts ...string) bool {
	said := strings.ToLower(e.Stderr + "\n" + e.Stdout)
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(said, text) })
}

// SaysTaken tells whether the name of a new sandbox is in use. The daemon of
// both programs answers like this (contract, section 5.1).
func (e *CallError) SaysTaken() bool { return e.Says("409 conflict", "already exists") }

// Words are what the program said, on one line. What goes wrong inside a
// sandbox is on its standard output.
func (e *CallError) Words() string {
	text := e.Stderr
	if strings.TrimSpace(text) == "" {
		text = e.Stdout
	}
	words := strings.Fields(text)
	const enough = 120
	if len(words) > enough {
		words = words[len(words)-enough:]
	}
	return printable.Line(strings.Join(words, " "))
}

// Output runs a command that asks nobody anything and returns what it printed
// on standard output. It gets no input. When it takes longer than limit, or ctx
// ends, it is told to end, and two seconds later made to. Errors of the
// program are a *[CallError].
func (c Client) Output(ctx context.Context, limit time.Duration, args ...string) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := c.command(limited, args)
	var stdout, stderr capped
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("running %q: %w", c.typed(args), ctx.Err())
	}
	if err != nil {
		call := &CallError{Typed: c.typed(args), Code: -1, Stdout: stdout.String(), Stderr: stderr.String(), Err: err}
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			call.Code = exit.ExitCode()
		}
		if limited.Err() != nil {
			call.Limit = limit
		}
		return nil, call
	}
	return stdout.Bytes(), nil
}

// typed is a command as a user would type it.
func (c Client) typed(args []string) string {
	return strings.Join(append([]string{c.Typed}, args...), " ")
}

// command makes a command with an environment that is fit for it, in a process
// group of its own: Ctrl+C at the terminal is for us to act upon.
func (c Client) command(ctx context.Context, args []string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Path, append(append([]string{}, c.Args...), args...)...)
	cmd.Env = append(environment(), env...)
	ownGroup(cmd)
	cmd.WaitDelay = 2 * killDelay
	return cmd
}

// killDelay is how long a client may take to end when it is told to. sbx was
// seen to take half a minute (contract, section 1).
const killDelay = 2 * time.Second

// environment is ours without what must not reach the programs: a daemon that
// they start would hand the user's ssh agent to every sandbox (contract,
// section 9.2), and the Docker CLI's line to its plugin is ours alone.
func environment() []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "SSH_AUTH_SOCK", "SSH_AGENT_PID", "DOCKER_CLI_PLUGIN_SOCKET":
		default:
			env = append(env, kv)
		}
	}
	return env
}

// capped keeps the beginning of a program's output.
type capped struct{ bytes.Buffer }

const maxOutput = 8 << 20

func (c *capped) Write(p []byte) (int, error) {
	if room := maxOutput - c.Len(); room < len(p) {
		_, _ = c.Buffer.Write(p[:max(room, 0)])
		return len(p), nil
	}
	return c.Buffer.Write(p)
}
