package run

import (
	"context"
	"fmt"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
)

// cloudKeys returns current credentials of the cloud of the agent's model. A repository cannot
// request them.
func cloudKeys(ctx context.Context, h host.Host, wt gitrepo.Worktree, cfg config.Effective) ([]string, error) {
	if cfg.Agent.Name != "claude" {
		return nil, nil
	}
	bedrock := credential.Bedrock{LookupEnv: h.LookupEnv, Home: h.Home, Root: wt.Root}
	origin, err := bedrock.Origin()
	switch {
	case err != nil || origin.Name == "":
		return nil, err
	case origin.Repository:
		err := fmt.Errorf("the repository's %s switches Claude to Amazon Bedrock, which would pass your AWS credentials into the sandbox", origin.Name)
		return nil, hint.Wrap(err, "allow it with CLAUDE_CODE_USE_BEDROCK=1 in the environment, or refuse it with CLAUDE_CODE_USE_BEDROCK=0")
	}
	return bedrock.Environment(ctx)
}

// agentKeys returns the variables that the agent needs for its model. A microVM program that
// stores keys on the host adds them to requests itself.
func agentKeys(ctx context.Context, h host.Host, t Target, keys *credential.Routed) ([]string, error) {
	cfg, cloud := t.cfg, len(t.cloud) > 0
	if keys != nil {
		return keys.Inside, nil
	}
	agent := cfg.KeyAgent()
	env := credential.Collect(append(credential.Names(agent), cfg.Env.Pass...), h.LookupEnv)
	store, ok := t.Driver.(lifecycle.KeyStore)
	if !ok {
		return env, nil
	}
	services := credential.Services(agent)
	if cloud || len(services) == 0 {
		// Unused keys stay outside.
		env, _ = credential.Leave(env, services, func(string) bool { return false }, cfg.Env.Pass)
		return env, nil
	}
	stored, err := store.Keys(ctx, services, func(names []string) bool { return len(credential.Collect(names, h.LookupEnv)) > 0 })
	if err != nil {
		return nil, err
	}
	present := func(name string) bool { return stored[name] }
	env, keyless := credential.Leave(env, services, present, cfg.Env.Pass)
	if len(keyless) == len(services) {
		h.Report("Warning: " + store.MissingKeyHint(keyless))
	}
	return env, nil
}
