package commits

import (
	"context"
	"fmt"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// reportUnsent warns of what a clone lacks because a command is running in it. It is an error
// if that are changes that the user wanted to send.
func (g *Git) reportUnsent(ctx context.Context, sb lifecycle.Sandbox) error {
	commits, changes, err := g.Repo.Unsent(ctx)
	switch {
	case err != nil:
		return err
	case len(changes) > 0:
		return hint.Wrap(fmt.Errorf("your uncommitted changes in %s cannot be sent to sandbox %s while another command is running in it", host.Count(len(changes), "file"), sb.Name),
			"wait for it, or stop it with %q", "docker ralph stop "+sb.Name)
	case commits:
		g.Host.Report(fmt.Sprintf("Warning: sandbox %s does not have your latest commits, because another command is running in it", sb.Name))
	}
	return nil
}
