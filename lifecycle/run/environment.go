package run

import (
	"context"
	"fmt"
	"strconv"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// environment returns the environment of a command in the sandbox.
func environment(ctx context.Context, h host.Host, t Target, keys *credential.Routed) ([]string, error) {
	wt, cfg := t.wt, t.cfg
	encoded, err := cfg.Guest(true).Encode()
	if err != nil {
		return nil, err
	}
	env := []string{config.GuestEnv + "=" + encoded}
	names := []string{"NO_COLOR"}
	if h.Terminal != nil {
		names = append(names, "TERM", "COLORTERM")
	}
	env = append(env, credential.Collect(names, h.LookupEnv)...)
	env = append(env, wt.Scope.Environ()...)
	if name, _ := h.LookupEnv("RALPH_SCOPE_BRANCH"); name == "" { // otherwise the scope has another branch
		env = append(env, wire.BranchEnv+"="+wt.Scope.Branch)
	}
	warnUnset(h, cfg)
	warnIdentity(h, wt)
	agents, err := agentKeys(ctx, h, t, keys)
	if err != nil {
		return nil, err
	}
	env = append(env, agents...)
	return append(env, gitConfig(wt)...), nil
}

// warnUnset reports variables of --env that are not set. Those of the configuration are
// optional.
func warnUnset(h host.Host, cfg config.Effective) {
	for _, name := range cfg.Env.Pass {
		if _, set := h.LookupEnv(name); !set && cfg.Origins["env.pass."+name].Kind == config.FromFlag {
			h.Report(fmt.Sprintf("Warning: --env %s: the variable is not set", name))
		}
	}
}

// The author of commits if git has no user.name or user.email.
const (
	fallbackName  = "docker-ralph"
	fallbackEmail = "docker-ralph@localhost"
)

// identity returns the user's name and email in git; empty if unset.
func identity(wt gitrepo.Worktree) (name, email string) {
	return wt.Config.Last("user", "name"), wt.Config.Last("user", "email")
}

func warnIdentity(h host.Host, wt gitrepo.Worktree) {
	if name, email := identity(wt); name == "" || email == "" {
		h.Report(fmt.Sprintf("Warning: git has no user.name and user.email here: the agent commits as %s <%s>. Set yours with \"git config --global user.name NAME\" and \"user.email\".", fallbackName, fallbackEmail))
	}
}

// gitConfig passes the user's name, which is in the user's configuration, and disables
// signing, whose keys stay on the host.
func gitConfig(wt gitrepo.Worktree) []string {
	name, email := identity(wt)
	if name == "" || email == "" {
		name, email = fallbackName, fallbackEmail
	}
	settings := [][2]string{
		{"user.name", name},
		{"user.email", email},
		{"commit.gpgSign", "false"},
		{"tag.gpgSign", "false"},
	}
	env := []string{"GIT_CONFIG_COUNT=" + strconv.Itoa(len(settings))}
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	return env
}
