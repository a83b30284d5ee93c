package run

import (
	"context"
	"fmt"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// gitAccess is how git in a sandbox uses a token that stays outside.
type gitAccess struct {
	route    egress.Route
	settings func(base string) [][2]string
}

// environment leads git to the route, which the proxy has below the URL base.
func (a gitAccess) environment(env []string, base string) []string {
	return container.WithGitConfig(env, a.settings(base))
}

// gitToken has the proxy of a container keep the user's token for the repository
// that the work tree is from. Without one, git in the sandbox works as if nobody
// had asked for it.
func gitToken(ctx context.Context, h host.Host, wt gitrepo.Worktree, cfg config.Effective, at *Target, spec *lifecycle.Spec, command string) error {
	want := cfg.Sandbox.GitToken
	if want == config.GitTokenNone || command == host.TaskCommand {
		return nil
	}
	without := func(why string) error {
		h.Report(fmt.Sprintf("Warning: sandbox.git_token = %q has no effect: %s", want, why))
		return nil
	}
	switch {
	case at.Kind != config.DriverContainer:
		return without("the proxy that would keep the token is beside containers only")
	case spec.Egress.Policy.Mode != egress.Allowlist:
		return without(fmt.Sprintf("it needs the network policy %q", egress.Allowlist))
	case at.git == nil:
		// An agent could make another repository of the user's the origin.
		return without(fmt.Sprintf("it needs sandbox.git = %q, because otherwise the agent can change which repository the token is for", config.GitPrivate))
	}
	url, err := wt.Origin(ctx)
	if err != nil {
		return err
	}
	remote, ok := credential.ParseGitRemote(url)
	if !ok {
		return without("the git remote \"origin\" has no address that could be reached by https")
	}
	token, err := credential.GitTokens{LookupEnv: h.LookupEnv, Dir: h.Home}.Token(ctx, remote)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return without(fmt.Sprintf("no token for %s: %v", remote.Host, err))
	}
	access := &gitAccess{route: remote.Route(token, want == config.GitTokenWrite), settings: remote.Settings}
	if err := egress.CheckRoutes([]egress.Route{access.route}); err != nil {
		return fmt.Errorf("keeping the token for %s out of the sandbox: %w", remote.Host, err)
	}
	at.origin, spec.Egress.Routes = access, append(spec.Egress.Routes, access.route)
	return nil
}
