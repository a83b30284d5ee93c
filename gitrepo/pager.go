package gitrepo

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Log returns a command that shows commits and their changes at the user's terminal.
func (g Git) Log(ctx context.Context) *exec.Cmd {
	return g.paged(ctx, "log", "--format=medium", "--patch", "--stat", "--no-ext-diff", "--no-textconv")
}

// Diff returns a command that shows uncommitted changes at the user's terminal.
func (g Git) Diff(ctx context.Context) *exec.Cmd {
	return g.paged(ctx, "diff", "--no-ext-diff", "--no-textconv", "HEAD")
}

// paged returns a git command with the user's own pager. The repository can configure programs,
// none of which runs.
func (g Git) paged(ctx context.Context, args ...string) *exec.Cmd {
	configured, _ := g.Run(ctx, "config", "--global", "--get", "core.pager") // an error means none
	pager := cmp.Or(os.Getenv("GIT_PAGER"), strings.TrimSpace(configured), os.Getenv("PAGER"), "less")
	var all []string
	for _, setting := range slices.Concat(hardened(), g.Config, []string{"log.showSignature=false"}) {
		all = append(all, "-c", setting)
	}
	cmd := exec.CommandContext(ctx, g.Program, append(all, args...)...)
	// The environment's pager has precedence over that of the repository. It shows text in the
	// user's character set.
	cmd.Dir, cmd.Env = g.Dir, append(slices.Clone(g.Environ), "GIT_PAGER="+pager, "GIT_NO_LAZY_FETCH=1", "LC_ALL="+os.Getenv("LC_ALL"))
	if os.Getenv("LESS") == "" {
		cmd.Env = append(cmd.Env, "LESS=R") // do not quit at once after a short text
	}
	return cmd
}
