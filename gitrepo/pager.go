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
	return g.paged(ctx, stay, "log", "--format=medium", "--patch", "--stat")
}

// Diff returns a command that shows uncommitted changes at the user's terminal.
func (g Git) Diff(ctx context.Context) (*exec.Cmd, error) {
	return g.paged(ctx, stay, "diff", "HEAD")
}

// DiffOf returns a command that shows the changes between two commits: at a terminal with the user's
// pager, which quits at once after a short text.
func (g Git) DiffOf(ctx context.Context, from, to string, options ...string) (*exec.Cmd, error) {
	return g.paged(ctx, "FRX", append(append([]string{"diff"}, options...), from, to, "--")...)
}

// stay are the options of less with which it does not quit at once after a short text.
const stay = "R"

// paged returns a git command with the user's own pager. less are options for a user who has set
// none.
func (g Git) paged(ctx context.Context, less string, args ...string) (*exec.Cmd, error) {
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
		cmd.Env = append(cmd.Env, "LESS="+less)
	}
	return cmd, nil
}
