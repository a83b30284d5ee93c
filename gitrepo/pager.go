package gitrepo

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"strings"
)

// Log returns a command that shows commits and their changes at the user's terminal.
func (g Git) Log(ctx context.Context) (*exec.Cmd, error) {
	return g.paged(ctx, "log", "--format=medium", "--patch", "--stat")
}

// Diff returns a command that shows uncommitted changes at the user's terminal.
func (g Git) Diff(ctx context.Context) (*exec.Cmd, error) {
	return g.paged(ctx, "diff", "HEAD")
}

// paged returns a git command with the user's own pager.
func (g Git) paged(ctx context.Context, args ...string) (*exec.Cmd, error) {
	configured, _ := g.Run(ctx, "config", "--global", "--get", "core.pager") // an error means none
	pager := cmp.Or(os.Getenv("GIT_PAGER"), strings.TrimSpace(configured), os.Getenv("PAGER"), "less")
	cmd, err := g.command(ctx, append([]string{"--paginate"}, args...))
	if err != nil {
		return nil, err
	}
	// The environment's pager has precedence over that of the repository. It shows text in the
	// user's character set.
	cmd.Env = append(cmd.Env, "GIT_PAGER="+pager, "LC_ALL="+os.Getenv("LC_ALL"))
	if os.Getenv("LESS") == "" {
		cmd.Env = append(cmd.Env, "LESS=R") // do not quit at once after a short text
	}
	return cmd, nil
}
