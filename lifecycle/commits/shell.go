package commits

import (
	"bytes"
	"context"
	"io"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Shell runs scripts in a sandbox.
func Shell(driver lifecycle.Driver, sb lifecycle.Sandbox) gitsync.Shell {
	return func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
		ctx, cancel := context.WithTimeout(ctx, FetchTimeout) // an agent can make its git hang
		defer cancel()
		var stderr bytes.Buffer
		code, err := driver.Exec(ctx, sb, lifecycle.Process{
			ID: lifecycle.NewServiceID(), Args: append([]string{"sh", "-c", script, "sh"}, args...), Dir: sb.Root,
			Stdin: stdin, Stdout: stdout, Stderr: &Limited{Buf: &stderr, Left: 4096},
		})
		if err == nil && code != 0 {
			err = &gitsync.ScriptError{Code: code, Stderr: stderr.String()}
		}
		return err
	}
}

// Limited keeps the beginning of what is written.
type Limited struct {
	Buf  *bytes.Buffer
	Left int
}

func (l *Limited) Write(p []byte) (int, error) {
	n := min(len(p), l.Left)
	l.Left -= n
	_, _ = l.Buf.Write(p[:n])
	return len(p), nil
}
