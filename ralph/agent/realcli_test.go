//go:build linux

package agent

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/e2e/modelapi"
	"github.com/docker-ralph/docker-ralph/ralph/agent/event"
	"github.com/docker-ralph/docker-ralph/ralph/prompt"
)

// bench is a work tree in which a real agent runs, with a home of its own.
type bench struct {
	dir string
	env []string
	url string // of the model
}

func (b *bench) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(b.dir, name)
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(t, os.WriteFile(path, []byte(content), 0o600))
}

// realAgents are set up to ask the test's model.
var realAgents = []struct {
	name, model string
	tokens      bool
	setUp       func(t *testing.T, b *bench)
}{
	{"codex", "gpt-test", true, func(t *testing.T, b *bench) {
		b.env = append(b.env, "CODEX_HOME="+filepath.Join(b.dir, "home", ".codex"), "OPENAI_API_KEY=sk-test-key")
		b.write(t, "home/.codex/config.toml", `model_provider = "test"
[model_providers.test]
name = "test"
base_url = "`+b.url+`/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
`)
	}},
	{"gemini", "gemini-2.5-pro", true, func(t *testing.T, b *bench) {
		b.env = append(b.env, "GEMINI_API_KEY=sk-test-key", "GOOGLE_GEMINI_BASE_URL="+b.url)
		b.write(t, "home/.gemini/settings.json", `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`)
	}},
	{"opencode", "test/m", true, func(t *testing.T, b *bench) {
		b.write(t, "home/.config/opencode/opencode.json", `{"share":"disabled","provider":{"test":{
			"npm":"@ai-sdk/openai-compatible","options":{"baseURL":"`+b.url+`/v1","apiKey":"sk-test-key"},
			"models":{"m":{"name":"m","tool_call":true}}}}}`)
	}},
	{"copilot", "gpt-test", false, func(_ *testing.T, b *bench) {
		b.env = append(b.env, "COPILOT_PROVIDER_BASE_URL="+b.url+"/v1", "COPILOT_PROVIDER_API_KEY=sk-test-key")
	}},
}

// TestRealAgents starts the real programs by our command lines. Only their
// models are played.
func TestRealAgents(t *testing.T) {
	programs := os.Getenv("RALPH_TEST_AGENTS")
	if programs == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("RALPH_TEST_AGENTS names no folder with the real agents; \"make test\" sets it")
		}
		t.Skip("RALPH_TEST_AGENTS names no folder with the real agents; see scripts/agents.sh")
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	for _, tc := range realAgents {
		t.Run(tc.name, func(t *testing.T) {
			model := &modelapi.Vendor{Commands: []string{"cat told >made; echo hello >>made", "cat made"}, Say: "All done."}
			server := httptest.NewServer(model)
			defer server.Close()
			b := &bench{dir: t.TempDir(), url: server.URL}
			b.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(b.dir, "home"), "TERM=dumb"}
			b.write(t, "home/.keep", "")
			b.write(t, "told", "from the work tree\n")
			tc.setUp(t, b)
			events := b.run(t, tc.name, tc.model)

			made, err := os.ReadFile(filepath.Join(b.dir, "made"))
			assert.NilError(t, err)
			assert.Equal(t, string(made), "from the work tree\nhello\n")
			var shown strings.Builder
			var result *event.Result
			var usage event.Usage
			for _, e := range events {
				shown.WriteString(event.Render(e))
				switch e := e.(type) {
				case event.Result:
					result = &e
				case event.Usage:
					usage = e
				}
			}
			assert.Assert(t, cmp.Contains(shown.String(), "cat told >made; echo hello >>made"))
			assert.Assert(t, cmp.Contains(shown.String(), "All done."))
			assert.Assert(t, result != nil && !result.Failed, shown.String())
			assert.Equal(t, usage.Tokens != nil, tc.tokens)
			for _, key := range model.Keys() {
				assert.Equal(t, key, "sk-test-key")
			}
		})
	}
}

// run runs an agent to its end and returns what it reported.
func (b *bench) run(t *testing.T, name, model string) []event.Event {
	t.Helper()
	a, err := Lookup(name, nil)
	assert.NilError(t, err)
	getenv := func(want string) string {
		for _, kv := range b.env {
			if n, v, _ := strings.Cut(kv, "="); n == want {
				return v
			}
		}
		return ""
	}
	s := Session{
		Mode: Build, Model: model, Sandboxed: true, Bypass: true, Env: b.env, Getenv: getenv, TempDir: t.TempDir(),
		Prompts: []prompt.Prompt{{Skill: "ralph-build", Text: "---\nname: ralph-build\n---\nMake a file.\n" + strings.Repeat("Be careful. ", 20000)}},
	}
	command, err := a.Prepare(t.Context(), s)
	assert.NilError(t, err)
	cmd := exec.CommandContext(t.Context(), command.Path, command.Args...)
	cmd.Dir, cmd.Env = b.dir, append(b.env, command.Env...)
	cmd.Stdin = strings.NewReader(command.Stdin)
	cmd.WaitDelay = time.Second
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	assert.NilError(t, err, "%s\n%s", out, errs.String())
	d := a.Decoder()
	return append(d.Decode(out), d.End()...)
}
