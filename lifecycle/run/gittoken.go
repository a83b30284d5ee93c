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

// gitAccess is a route for git that adds a token outside of the sandbox.
type gitAccess struct {
	route    egress.Route
	settings func(base string) [][2]string
}

// environment makes git use the route, which is below the URL base of the proxy.
func (a gitAccess) environment(env []string, base string) []string {
	return container.WithGitConfig(env, a.settings(base))
}

// gitToken returns access to origin with the user's token, which the proxy of a container
// keeps; nil, with a warning, where that is impossible.
func gitToken(ctx context.Context, h host.Host, t Target, private bool) (*gitAccess, error) {
	want := t.cfg.Sandbox.GitToken
	if want == config.GitTokenNone {
		return nil, nil
	}
	without := func(why string) (*gitAccess, error) {
		h.Report(fmt.Sprintf("Warning: sandbox.git_token = %q has no effect: %s", want, why))
		return nil, nil
	}
	switch {
	case t.Kind != config.DriverContainer:
		return without("only containers have a proxy that keeps the token")
	case t.spec.Egress.Policy.Mode != egress.Allowlist:
		return without(fmt.Sprintf("it needs the network policy %q", egress.Allowlist))
	case !private:
		// An agent could make another repository of the user's the origin.
		return without(fmt.Sprintf("it needs a clone (%s = %q), because otherwise the agent can change which repository the token is for", config.KeyWorkspace, config.WorkspaceClone))
	}
	url, err := t.wt.Origin(ctx)
	if err != nil {
		return nil, err
	}
	remote, ok := credential.ParseGitRemote(url)
	if !ok {
		return without("the git remote \"origin\" has no HTTPS address")
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
