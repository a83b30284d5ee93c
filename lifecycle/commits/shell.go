package commits

import (
	"context"
	"errors"
	"io"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Shell runs scripts in a sandbox.
func Shell(driver lifecycle.Driver, sb lifecycle.Sandbox) gitsync.Shell {
	return func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
		ctx, cancel := context.WithTimeout(ctx, FetchTimeout) // an agent can make its git hang
		defer cancel()
		err := lifecycle.RunService(ctx, driver, sb, stdin, stdout, append([]string{"sh", "-c", script, "sh"}, args...)...)
		if exit, failed := errors.AsType[*lifecycle.ExitError](err); failed {
			err = &gitsync.ScriptError{Code: exit.Code, Stderr: exit.Stderr}
		}
		return err
	}
}
