package run

import (
	"context"
	"fmt"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/egress"
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
func gitToken(ctx context.Context, h host.Host, t Target, private bool) (*gitAccess, error) {
	want := t.cfg.Sandbox.GitToken
	if want == config.GitTokenNone || t.opts.Command == host.TaskCommand {
		return nil, nil
	}
	without := func(why string) (*gitAccess, error) {
		h.Report(fmt.Sprintf("Warning: sandbox.git_token = %q has no effect: %s", want, why))
		return nil, nil
	}
	switch {
	case t.Kind != config.DriverContainer:
		return without("the proxy that would keep the token is beside containers only")
	case t.spec.Egress.Policy.Mode != egress.Allowlist:
		return without(fmt.Sprintf("it needs the network policy %q", egress.Allowlist))
	case !private:
		// An agent could make another repository of the user's the origin.
		return without(fmt.Sprintf("it needs sandbox.git = %q, because otherwise the agent can change which repository the token is for", config.GitPrivate))
	}
	url, err := t.wt.Origin(ctx)
	if err != nil {
		return nil, err
	}
	remote, ok := credential.ParseGitRemote(url)
	if !ok {
		return without("the git remote \"origin\" has no address that could be reached by https")
	}
	token, err := credential.GitTokens{LookupEnv: h.LookupEnv, Dir: h.Home}.Token(ctx, remote)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return without(fmt.Sprintf("no token for %s: %v", remote.Host, err))
	}
	access := &gitAccess{route: remote.Route(token, want == config.GitTokenWrite), settings: remote.Settings}
	if err := egress.CheckRoutes([]egress.Route{access.route}); err != nil {
		return nil, fmt.Errorf("keeping the token for %s out of the sandbox: %w", remote.Host, err)
	}
	return access, nil
}
