package dispatch

import (
	"context"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// cloudKeys returns the credentials of a cloud that the agent's model runs in,
// taken afresh. A repository cannot ask for them.
func (h Host) cloudKeys(ctx context.Context, wt gitrepo.Worktree, cfg config.Effective, command string) ([]string, error) {
	if command == taskCommand || cfg.Agent.Name != "claude" {
		return nil, nil
	}
	bedrock := credential.Bedrock{LookupEnv: h.LookupEnv, Home: h.Home, Root: wt.Root}
	origin, err := bedrock.Origin()
	switch {
	case err != nil || origin.Name == "":
		return nil, err
	case origin.Repository:
		return nil, fmt.Errorf("the repository's %s switches Claude to Amazon Bedrock, which would give the sandbox your AWS credentials: set CLAUDE_CODE_USE_BEDROCK=1 in the environment to agree, or CLAUDE_CODE_USE_BEDROCK=0 not to", origin.Name)
	}
	return bedrock.Environment(ctx)
}

// agentKeys returns the variables by which the agent reaches its model. In a
// microVM, keys stay on the host where its program adds them to requests by
// itself.
func (h Host) agentKeys(ctx context.Context, cfg config.Effective, at place, cloud bool) ([]string, error) {
	if at.keys != nil {
		return at.keys.Inside, nil
	}
	agent := cfg.Agent.Name
	env := credential.Collect(append(credential.Names(agent), cfg.Env.Pass...), h.LookupEnv)
	if at.kind == config.DriverContainer {
		return env, nil
	}
	services := credential.Services(agent)
	if cloud || len(services) == 0 {
		// A key that nobody needs stays out, and none is asked for.
		env, _ = credential.Leave(env, services, func(string) bool { return false }, cfg.Env.Pass)
		return env, nil
	}
	stored := func(credential.Service) bool { return false }
	switch at.kind {
	case config.DriverSbx:
		secrets, err := at.sbx.Secrets(ctx)
		if err != nil {
			return nil, err
		}
		stored = func(s credential.Service) bool { return secrets[s.Name] }
	case config.DriverDockerSandbox:
		// Its proxy has the variables of Docker Desktop's environment, which
		// nobody can ask for. Those that the user has are likely the same.
		stored = func(s credential.Service) bool { return len(credential.Collect(s.Variables, h.LookupEnv)) > 0 }
	}
	present := func(name string) bool {
		for _, s := range services {
			if s.Name == name {
				return stored(s)
			}
		}
		return false
	}
	env, keyless := credential.Leave(env, services, present, cfg.Env.Pass)
	if len(keyless) == len(services) {
		h.report(askForKey(at.kind, keyless))
	}
	return env, nil
}

// askForKey says how a key is given to the proxy of a microVM program.
func askForKey(kind string, services []credential.Service) string {
	var names, variables []string
	for _, s := range services {
		names, variables = append(names, s.Name), append(variables, s.Variables[0])
	}
	if kind == config.DriverSbx {
		return fmt.Sprintf("Warning: sbx has no key for %s: the agent can reach its model only if it logs in by itself. Store one with \"sbx secret set %s\"",
			strings.Join(names, ", "), names[0])
	}
	return fmt.Sprintf("Warning: %s is not set: the agent can reach its model only if it logs in by itself. Set it in your shell's start-up file, then restart Docker Desktop, whose proxy adds it to requests",
		strings.Join(variables, ", "))
}
