package projectimage

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed agents
var agentFiles embed.FS

// Agents returns the names of the agents that there is an image for, sorted.
func Agents() []string { return []string{"claude", "shell"} }

// DefaultBase returns the upstream base of agent's image when the user names
// none, and "" for an unknown agent.
func DefaultBase(agent string) string {
	switch agent {
	case "claude":
		return "docker/sandbox-templates:claude-code"
	case "shell":
		return "debian:bookworm-slim"
	default:
		return ""
	}
}

// UnknownAgentError says that there is no image for an agent of this name.
type UnknownAgentError struct{ Agent string }

func (e *UnknownAgentError) Error() string {
	return fmt.Sprintf("there is no image for agent %q: choose one of %s, or give an image that has the agent with --image IMAGE",
		e.Agent, strings.Join(Agents(), ", "))
}

// InvalidParameter marks the error as the user's.
func (*UnknownAgentError) InvalidParameter() {}

// agentDockerfile returns the Dockerfile of agent's image: the steps that all
// agents share, which are built once per base, and the agent's own.
func agentDockerfile(agent string) ([]byte, error) {
	if !slices.Contains(Agents(), agent) {
		return nil, &UnknownAgentError{Agent: agent}
	}
	var content []byte
	for _, part := range []string{"common", agent} {
		steps, err := agentFiles.ReadFile("agents/" + part + "/Dockerfile")
		if err != nil {
			return nil, fmt.Errorf("reading the Dockerfile of agent %q: %w", agent, err)
		}
		content = append(append(content, steps...), '\n')
	}
	return content, nil
}

// agentSpec describes the image of req's agent on its base.
func agentSpec(req Request) (buildSpec, error) {
	dockerfile, err := agentDockerfile(req.Agent)
	if err != nil {
		return buildSpec{}, err
	}
	base := req.Base
	if base == "" {
		base = DefaultBase(req.Agent)
	}
	base, err = normalizeBase(base)
	if err != nil {
		return buildSpec{}, err
	}
	return buildSpec{
		tag:        agentTag(req.Agent, base, dockerfile),
		base:       base,
		dockerfile: dockerfile,
		labels: map[string]string{
			labelPrefix + "agent":      req.Agent,
			labelPrefix + "base":       base,
			labelPrefix + "created-by": "docker-ralph",
		},
	}, nil
}
