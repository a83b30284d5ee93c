package microvm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/budget"
)

// client is one of the two programs on this machine.
type client struct {
	path string
	args []string // before every command, such as "sandbox"
	cli  string   // how a user calls it
	// stdin is the input of [client.output]; nil for none.
	stdin io.Reader
}

// callError is a failed call of the program.
type callError struct {
	command        string // the command, as a user would type it
	code           int    // exit code; -1 when it was ended from outside
	stdout, stderr string
	limit          time.Duration // the time that it exceeded; 0 if it did not
	err            error
}

// Error quotes the program.
func (e *callError) Error() string {
	switch words := e.message(); {
	case errors.Is(e.err, budget.ErrExceeded):
		return fmt.Sprintf("%q: %v", e.command, e.err)
	case e.limit > 0:
		return fmt.Sprintf("%q did not answer within %s", e.command, e.limit)
	case words != "":
		return fmt.Sprintf("%q: %s", e.command, words)
	default:
		return fmt.Sprintf("%q: %v", e.command, e.err)
	}
}

// Unwrap implements errors.
func (e *callError) Unwrap() error { return e.err }

// mentions reports whether the output has one of these texts, in any case.
func (e *callError) mentions(texts ...string) bool {
	said := strings.ToLower(e.stderr + "\n" + e.stdout)
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(said, text) })
}

// taken reports whether the name of a new sandbox is in use (contract, section 5.1).
func (e *callError) taken() bool { return e.mentions("409 conflict", "already exists") }

// missing reports whether there is no sandbox of that name. Other things may not be found
// either, and the plugin's name contains "sandbox".
func (e *callError) missing() bool {
	return e.mentions("no sandbox named", "no such sandbox") || e.mentions("sandbox '", `sandbox "`) && e.mentions("' not found", `" not found`)
}

// message is the end of the program's output, on one line. Failures inside a sandbox are on
// standard output.
func (e *callError) message() string {
	text := e.stderr
	if strings.TrimSpace(text) == "" {
		text = e.stdout
	}
	words := strings.Fields(text)
	return strings.Join(words[max(0, len(words)-120):], " ")
}

// output runs a command and returns its standard output. After limit, or at
// the end of ctx, it is terminated, and killed two seconds later. Errors of the program are
// a [*callError].
func (c client) output(ctx context.Context, limit time.Duration, args ...string) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := c.command(limited, args)
	stdout, stderr := budget.New(maxOutput, "the output"), budget.NewHead(maxOutput)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, stdout, stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("running %q: %w", c.commandLine(args), ctx.Err())
	}
	if stdout.Err() != nil {
		err = stdout.Err()
	}
	if err != nil {
		failed := &callError{command: c.commandLine(args), code: -1, stdout: stdout.String(), stderr: stderr.String(), err: err}
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			failed.code = exit.ExitCode()
		}
		if limited.Err() != nil {
			failed.limit = limit
		}
		return nil, failed
	}
	return stdout.Bytes(), nil
}

// commandLine is a command as a user would type it.
func (c client) commandLine(args []string) string {
	return strings.Join(append([]string{c.cli}, args...), " ")
}

// command prepares a command in its own process group, which Ctrl+C does not reach.
func (c client) command(ctx context.Context, args []string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.path, slices.Concat(c.args, args)...)
	cmd.Env = append(environment(), env...)
	setProcessGroup(cmd)
	cmd.WaitDelay = 2 * killDelay
	return cmd
}

// killDelay is the time between SIGTERM and SIGKILL. sbx can take half a minute to end
// (contract, section 1).
const killDelay = 2 * time.Second

// environment is ours without the ssh-agent, which a daemon that the programs start would
// forward to every sandbox (contract, section 9.2), and the plugin socket of the Docker CLI.
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

// maxOutput bounds a program's output, in bytes: it has names and messages of agents.
const maxOutput = 8 << 20
