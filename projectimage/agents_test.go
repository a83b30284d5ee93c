package projectimage

import (
	"bytes"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/hint"
)

func TestDefaultBase(t *testing.T) {
	assert.Equal(t, DefaultBase("claude"), "docker/sandbox-templates:claude-code")
	assert.Equal(t, DefaultBase("codex"), "docker/sandbox-templates:codex")
	assert.Equal(t, DefaultBase("crush"), "debian:bookworm-slim")
	for _, agent := range Agents() {
		base := DefaultBase(agent)
		normal, err := normalizeBase(base)
		assert.NilError(t, err)
		assert.Equal(t, normal, base)
	}
	assert.Equal(t, DefaultBase("nobody"), "")
}

func TestRef(t *testing.T) {
	for _, tc := range []struct {
		name string
		req  Request
		want string
	}{
		{"claude", Request{Agent: "claude"}, `^agent-loop-sandbox-claude:v[0-9a-f]{8}$`},
		{"shell", Request{Agent: "shell"}, `^agent-loop-sandbox-shell:v[0-9a-f]{8}$`},
		{"given", Request{Agent: "shell", Image: "mine:1"}, `^mine:1$`},
		{"given for an agent without an image", Request{Agent: "other", Image: "mine:1"}, `^mine:1$`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ref, err := Ref(tc.req)
			assert.NilError(t, err)
			assert.Assert(t, cmp.Regexp(tc.want, ref))
		})
	}
}

func TestRefDependsOnTheBaseOnly(t *testing.T) {
	ref := func(base string, rebuild bool) string {
		ref, err := Ref(Request{Agent: "shell", Base: base, Rebuild: rebuild})
		assert.NilError(t, err)
		return ref
	}
	assert.Equal(t, ref("", false), ref("docker.io/library/debian:bookworm-slim", true))
	assert.Assert(t, ref("", false) != ref("debian:trixie-slim", false))
}

func TestUnknownAgent(t *testing.T) {
	_, err := Ref(Request{Agent: "../shell"})
	assert.Error(t, err, `no image for agent "../shell"`)
	assert.DeepEqual(t, hint.Of(err), []string{"choose one of claude, codex, copilot, crush, gemini, opencode, shell, or use an image that contains the agent with --image IMAGE"})
}

func parseDockerfile(t *testing.T, agent string) *parser.Result {
	t.Helper()
	content, err := agentDockerfile(agent, "")
	assert.NilError(t, err)
	result, err := parser.Parse(bytes.NewReader(content))
	assert.NilError(t, err)
	return result
}

// instructions returns the instructions called name, in order.
func instructions(result *parser.Result, name string) []string {
	var found []string
	for _, node := range result.AST.Children {
		if strings.EqualFold(node.Value, name) {
			found = append(found, strings.TrimSpace(node.Original[len(name):]))
		}
	}
	return found
}

func TestDockerfiles(t *testing.T) {
	for _, agent := range Agents() {
		t.Run(agent, func(t *testing.T) {
			result := parseDockerfile(t, agent)
			assert.Assert(t, cmp.Len(result.Warnings, 0))
			first := result.AST.Children[:2]
			assert.Equal(t, first[0].Original, "ARG BASE_IMAGE")
			assert.Equal(t, first[1].Original, "FROM ${BASE_IMAGE}")
			assert.DeepEqual(t, instructions(result, "USER"), []string{"root", "agent"})
			assert.DeepEqual(t, instructions(result, "WORKDIR"), []string{"/home/agent"})

			content, err := agentDockerfile(agent, "")
			assert.NilError(t, err)
			assert.Assert(t, !regexp.MustCompile(`(?mi)^#\s*(syntax|escape|check)\s*=`).Match(content),
				"a directive would make the engine fetch another frontend")
			// Only what the BuildKit of Docker 20.10 knows, and nothing that fetches or needs a context.
			for _, node := range result.AST.Children {
				assert.Assert(t, slices.Contains([]string{"ARG", "ENV", "FROM", "USER", "RUN", "WORKDIR"}, strings.ToUpper(node.Value)), node.Original)
				assert.Assert(t, cmp.Len(node.Flags, 0), node.Original)
				assert.Assert(t, cmp.Len(node.Heredocs, 0), node.Original)
			}
		})
	}
}

func TestDockerfileStepsAreShell(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh on this machine")
	}
	for _, agent := range Agents() {
		for _, step := range instructions(parseDockerfile(t, agent), "RUN") {
			out, err := exec.CommandContext(t.Context(), sh, "-n", "-c", step).CombinedOutput()
			assert.NilError(t, err, "%s\n%s", step, out)
		}
	}
}

func TestCertificatesAreInTheDigest(t *testing.T) {
	tags := map[string]bool{}
	for _, ca := range []string{"", "one", "two"} {
		tags[refOf(t, Request{Agent: "shell", CA: ca})] = true
	}
	assert.Equal(t, len(tags), 3)
}

// pinned returns what the file of versions says.
func pinned(t *testing.T, name string) string {
	t.Helper()
	versions, err := agentVersions()
	assert.NilError(t, err)
	assert.Assert(t, versions[name] != "", name)
	return versions[name]
}

func TestVersionsAreInOneFile(t *testing.T) {
	versions, err := agentVersions()
	assert.NilError(t, err)
	var used string
	for _, agent := range Agents() {
		args := instructions(parseDockerfile(t, agent), "ARG")
		used += strings.Join(args, "\n") + "\n"
		for _, arg := range args {
			assert.Assert(t, arg == "BASE_IMAGE" || strings.Contains(arg, "="), "%s: %s has no value", agent, arg)
		}
	}
	for name, version := range versions {
		assert.Assert(t, cmp.Contains(used, name+"="+strconv.Quote(version)+"\n"))
	}
	err = fs.WalkDir(agentFiles, "agents", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "Dockerfile" {
			return err
		}
		content, err := agentFiles.ReadFile(path)
		assert.Assert(t, !regexp.MustCompile(`\d+\.\d+\.\d+|[0-9a-f]{64}`).Match(content), "%s has a version of its own", path)
		return err
	})
	assert.NilError(t, err)
}
