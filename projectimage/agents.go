package projectimage

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/buildkit/util/staticfs"
	"github.com/tonistiigi/fsutil"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

//go:embed agents
var agentFiles embed.FS

// The commands in the image of an agent; the Dockerfile maps them to packages. The
// built-in shell agent has few, so its image is built in seconds.
const (
	shellTools = "git bash"
	agentTools = "git bash curl jq rg sqlite3 cc c++ make less ps unzip xz python3"
)

// debianBase is the base of agents without a base image by Docker.
const debianBase = "debian:bookworm-slim"

// Agents returns the agents that have an image, sorted.
func Agents() []string {
	return []string{"claude", "codex", "copilot", "crush", "gemini", "opencode", "shell"}
}

// DefaultBase returns the default base of an agent's image, "" for an unknown agent.
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

// openArg matches an ARG without a value.
var openArg = lazyregexp.New(`(?m)^ARG ([A-Z0-9_]+)$`)

// agentDockerfile returns the Dockerfile of an agent's image: the steps that all agents
// share, which are built once per base, and the agent's own. The versions file sets the
// arguments.
//
// The image trusts the certificates in ca besides its own. The Dockerfile has their hash, so
// that the digest of the image covers them.
func agentDockerfile(agent, ca string) ([]byte, error) {
	if !slices.Contains(Agents(), agent) {
		return nil, hint.Wrap(fmt.Errorf("no image for agent %q", agent), "choose one of %s, or use an image that contains the agent with --image IMAGE", strings.Join(Agents(), ", "))
	}
	parts, tools := []string{"base", "common", "node", agent, "npm"}, agentTools
	if agent == "shell" {
		parts, tools = []string{"base", "common", agent}, shellTools
	}
	if ca != "" {
		parts = slices.Insert(parts, 1, "ca")
	}
	values, err := agentVersions()
	if err != nil {
		return nil, err
	}
	values["TOOLS"], values["CA_HASH"] = tools, fullHash(ca)
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

// agentVersions reads the versions file.
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

// certificatesFile is the name of the certificates in the build context.
const certificatesFile = "ca.pem"

// certificateContext is a build context with certificates.
func certificateContext(ca string) fsutil.FS {
	files := staticfs.NewFS()
	if ca != "" {
		files.Add(certificatesFile, sentFile([]byte(ca)), []byte(ca))
	}
	return files
}

// agentSpec describes the agent image of a request.
func agentSpec(req Request) (buildSpec, error) {
	dockerfile, err := agentDockerfile(req.Agent, req.CA)
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
		context:    certificateContext(req.CA),
		labels: map[string]string{
			labelAgent:     req.Agent,
			labelBase:      base,
			labelDigest:    agentDigest(base, dockerfile),
			labelCreatedBy: createdBy,
		},
	}, nil
}
