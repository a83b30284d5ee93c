package lifecycle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// ParseDispatches parses the output of "ralph _dispatches" in a sandbox. The
// content is untrusted.
func ParseDispatches(output []byte) ([]Dispatch, error) {
	var list struct {
		Dispatches []struct {
			ID      string    `json:"id"`
			Command []string  `json:"command"`
			Since   time.Time `json:"since"`
		} `json:"dispatches"`
	}
	if err := json.Unmarshal(output, &list); err != nil {
		return nil, fmt.Errorf("parsing the processes of the sandbox: %w", err)
	}
	var found []Dispatch
	for _, d := range list.Dispatches {
		found = append(found, Dispatch(d))
	}
	return found, nil
}

// RunService runs a command of docker-ralph itself in a sandbox, in the worktree. A failed one
// is an [*ExitError].
func RunService(ctx context.Context, d Driver, sb Sandbox, stdin io.Reader, stdout io.Writer, args ...string) error {
	var stderr bytes.Buffer
	code, err := d.Exec(ctx, sb, Process{
		ID: NewServiceID(), Args: args, Dir: filepath.ToSlash(sb.Root), Env: sb.Scope.Environ(),
		Stdin: stdin, Stdout: stdout, Stderr: &Limited{To: &stderr, Left: 4096},
	})
	if err == nil && code != 0 {
		err = &ExitError{Code: code, Stderr: stderr.String()}
	}
	return err
}

// ErrNoProcess means that a process is not there to be signaled: it has ended, or is still starting.
var ErrNoProcess = errors.New("no such process in the sandbox")

// Signal sends SIGTERM, or SIGINT for any other signal, to a process that [Driver.Exec] has started: neither the
// engine nor the programs of microVMs can.
func Signal(ctx context.Context, d Driver, sb Sandbox, sig os.Signal, id string) error {
	name := "INT"
	if sig == syscall.SIGTERM {
		name = "TERM"
	}
	err := RunService(ctx, d, sb, nil, io.Discard, wire.Program, "_signal", name, id)
	if exit, ok := errors.AsType[*ExitError](err); ok && strings.Contains(exit.Stderr, "no process of dispatch") {
		return ErrNoProcess
	}
	if err != nil {
		return fmt.Errorf("sending a signal to sandbox %s: %w", sb.Name, err)
	}
	return nil
}

// ExitError is a command that has failed in a sandbox. Stderr is the beginning of what it
// printed, and untrusted.
type ExitError struct {
	Code   int
	Stderr string
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("exit code %d: %s", e.Code, termsafe.Line(strings.TrimSpace(e.Stderr)))
}

// Limited writes the beginning of what is written, and drops the rest.
type Limited struct {
	To   io.Writer
	Left int
}

func (l *Limited) Write(p []byte) (int, error) {
	n := min(len(p), l.Left)
	l.Left -= n
	if _, err := l.To.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}
