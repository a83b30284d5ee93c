package projectimage

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

//go:embed agents
var agentFiles embed.FS

// What the image of an agent has, as commands: the Dockerfile knows which
// package has which. The built-in shell agent is for tasks that bring what they
// need, so its image is made in seconds.
const (
	shellTools = "git bash"
	agentTools = "git bash curl jq rg sqlite3 cc c++ make less ps unzip xz python3"
)

// debianBase is the base of agents that Docker makes no base for.
const debianBase = "debian:bookworm-slim"

// Agents returns the names of the agents that there is an image for, sorted.
func Agents() []string {
	return []string{"claude", "codex", "copilot", "crush", "gemini", "opencode", "shell"}
}

// DefaultBase returns the upstream base of agent's image when the user names
// none, and "" for an unknown agent.
func DefaultBase(agent string) string {
	switch agent {
	case "claude":
		return "docker/sandbox-templates:claude-code"
	case "codex", "copilot", "gemini", "opencode":
		return "docker/sandbox-templates:" + agent
	case "crush", "shell":
		return debianBase
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

// openArg matches an ARG that has no value yet.
var openArg = lazyregexp.New(`(?m)^ARG ([A-Z0-9_]+)$`)

// agentDockerfile returns the Dockerfile of agent's image: the steps that all
// agents share, which are built once per base, and the agent's own. Arguments
// without a value get it from the file of versions.
func agentDockerfile(agent string) ([]byte, error) {
	if !slices.Contains(Agents(), agent) {
		return nil, &UnknownAgentError{Agent: agent}
	}
	parts, tools := []string{"common", "node", agent, "npm"}, agentTools
	if agent == "shell" {
		parts, tools = []string{"common", agent}, shellTools
	}
	values, err := agentVersions()
	if err != nil {
		return nil, err
	}
	values["TOOLS"] = tools
	var content []byte
	for _, part := range parts {
		steps, err := agentFiles.ReadFile("agents/" + part + "/Dockerfile")
		if err != nil {
			return nil, fmt.Errorf("reading the Dockerfile of agent %q: %w", agent, err)
		}
		content = append(append(content, steps...), '\n')
	}
	return openArg().ReplaceAllFunc(content, func(arg []byte) []byte {
		name := string(openArg().FindSubmatch(arg)[1])
		if value, ok := values[name]; ok {
			return fmt.Appendf(nil, "ARG %s=%q", name, value)
		}
		return arg
	}), nil
}

// agentVersions reads the file of versions: KEY=VALUE, as a shell reads it.
func agentVersions() (map[string]string, error) {
	content, err := agentFiles.ReadFile("agents/versions")
	if err != nil {
		return nil, fmt.Errorf("reading the versions of the agents: %w", err)
	}
	versions := make(map[string]string)
	for line := range strings.Lines(string(content)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			versions[name] = value
		}
	}
	return versions, nil
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
