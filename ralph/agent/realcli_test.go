package agent

import (
	"context"
	"net/http"
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
	"github.com/docker-ralph/docker-ralph/wire/event"
)

// bench is a worktree in which a real agent runs, with a home of its own.
type bench struct {
	dir string
	// home is outside of the worktree. opencode keeps a copy of the worktree for
	// each step: inside, it would copy all that it keeps at home each time.
	home string
	env  []string
	url  string // of the model
}

func (b *bench) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(b.dir, name)
	if inHome, ok := strings.CutPrefix(name, "~/"); ok {
		path = filepath.Join(b.home, inHome)
	}
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
		b.env = append(b.env, "CODEX_HOME="+filepath.Join(b.home, ".codex"), "CODEX_API_KEY=sk-test-key", "OPENAI_BASE_URL="+b.url+"/v1")
	}},
	{"gemini", "gemini-2.5-pro", true, func(t *testing.T, b *bench) {
		b.env = append(b.env, "GEMINI_API_KEY=sk-test-key", "GOOGLE_GEMINI_BASE_URL="+b.url)
		b.write(t, "~/.gemini/settings.json", `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`)
	}},
	{"opencode", "test/m", true, func(t *testing.T, b *bench) {
		b.write(t, "~/.config/opencode/opencode.json", `{"share":"disabled","provider":{"test":{
			"npm":"@ai-sdk/openai-compatible","options":{"baseURL":"`+b.url+`/v1","apiKey":"sk-test-key"},
			"models":{"m":{"name":"m","tool_call":true}}}}}`)
	}},
	{"copilot", "gpt-test", false, func(_ *testing.T, b *bench) {
		b.env = append(b.env, "COPILOT_PROVIDER_BASE_URL="+b.url+"/v1", "COPILOT_PROVIDER_API_KEY=sk-test-key")
	}},
}

// withRealAgents puts the real programs on PATH.
func withRealAgents(t *testing.T) {
	t.Helper()
	programs := os.Getenv("RALPH_TEST_AGENTS")
	if programs == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("RALPH_TEST_AGENTS names no folder with the real agents; \"make test\" sets it")
		}
		t.Skip("RALPH_TEST_AGENTS names no folder with the real agents; see scripts/agents.sh")
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
}

// newBench serves a model, and sets an agent up to ask it.
func newBench(t *testing.T, model *modelapi.Vendor, setUp func(*testing.T, *bench)) *bench {
	t.Helper()
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	b := &bench{dir: t.TempDir(), home: t.TempDir(), url: server.URL}
	b.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.home, "TMPDIR=" + b.home, "TERM=dumb"}
	setUp(t, b)
	return b
}

// The programs are real, the models are fake.
func TestRealAgents(t *testing.T) {
	withRealAgents(t)
	for _, tc := range realAgents {
		t.Run(tc.name, func(t *testing.T) {
			model := &modelapi.Vendor{Commands: []string{"cat told >made; echo hello >>made", "cat made"}, Say: "All done."}
			b := newBench(t, model, tc.setUp)
			b.write(t, "told", "from the worktree\n")
			events, err := b.run(t, tc.name, Session{Model: tc.model, Sandboxed: true, Bypass: true})
			assert.NilError(t, err)

			made, err := os.ReadFile(filepath.Join(b.dir, "made"))
			assert.NilError(t, err)
			assert.Equal(t, string(made), "from the worktree\nhello\n")
			shown, result, usage, limit := sum(events)
			assert.Assert(t, cmp.Contains(shown, "cat told >made; echo hello >>made"))
			assert.Assert(t, cmp.Contains(shown, "All done."))
			assert.Assert(t, result != nil && !result.Failed, shown)
			assert.Equal(t, usage.Tokens != nil, tc.tokens)
			assert.Assert(t, limit == nil)
			for _, key := range model.Keys() {
				assert.Equal(t, key, "sk-test-key")
			}
		})
	}
}

// TestRealAgentsWithoutBypass: without the bypass an agent may use the backlog and
// commit, as the prompt allows it, and nothing else. Codex may do everything
// within the worktree.
func TestRealAgentsWithoutBypass(t *testing.T) {
	withRealAgents(t)
	for _, tc := range realAgents {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, &modelapi.Vendor{Say: "All done.", Commands: []string{
				"ralph task plan-sync <<'TASKS'\n{}\nTASKS", "ralph build --danger", "touch forbidden",
				"git add told && git commit -q -m 'Add it'",
			}}, tc.setUp)
			b.write(t, "told", "from the worktree\n")
			b.write(t, "~/bin/ralph", "#!/bin/sh\necho \"$*\" >>called\n")
			assert.NilError(t, os.Chmod(filepath.Join(b.home, "bin/ralph"), 0o755))
			b.env[0] = "PATH=" + filepath.Join(b.home, "bin") + ":" + os.Getenv("PATH")
			b.env = append(b.env, "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@t", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@t")
			b.git(t, "init", "-q")
			t.Chdir(b.dir) // Prepare looks at the repository here

			events, err := b.run(t, tc.name, Session{Model: tc.model, Sandboxed: true})
			assert.NilError(t, err)
			shown, result, _, _ := sum(events)
			assert.Assert(t, result != nil && !result.Failed, shown)
			assert.Equal(t, b.git(t, "log", "--format=%s"), "Add it\n", shown)
			called, err := os.ReadFile(filepath.Join(b.dir, "called"))
			assert.NilError(t, err)
			_, err = os.Stat(filepath.Join(b.dir, "forbidden"))
			if tc.name == "codex" {
				assert.NilError(t, err)
				return
			}
			assert.Equal(t, string(called), "task plan-sync\n")
			assert.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}

// Agents end with a message if they have to wait for hours.
func TestRealAgentsReportRateLimits(t *testing.T) {
	withRealAgents(t)
	refusals := map[string]string{
		"codex": `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_in_seconds":7200}}`,
		"gemini": `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota.","details":[
			{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7200s"}]}}`,
		"opencode": `{"error":{"message":"Rate limit reached for m. Please try again later.","code":"rate_limit_exceeded"}}`,
		"copilot":  `{"error":{"message":"Sorry, you've hit a rate limit. Please try again in 2 hours.","code":"user_global_rate_limited"}}`,
	}
	for _, tc := range realAgents {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, &modelapi.Vendor{RetryAfter: "7200", Refuse: func(int) (int, string) {
				return http.StatusTooManyRequests, refusals[tc.name]
			}}, tc.setUp)
			events, err := b.run(t, tc.name, Session{Model: tc.model, Sandboxed: true, Bypass: true})
			assert.Assert(t, err != nil)
			shown, result, _, limit := sum(events)
			assert.Assert(t, result != nil && result.Failed, shown)
			assert.Assert(t, limit != nil, result.Text)
			if tc.name != "codex" { // it names the minute, in words
				left := time.Until(limit.Until)
				assert.Assert(t, left > time.Hour && left < 3*time.Hour, limit.Text)
			}
		})
	}
}

// sum returns what a run has shown, and the last of what it has reported.
func sum(events []event.Event) (shown string, result *event.Result, usage event.Usage, limit *event.RateLimit) {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(event.Render(e))
		switch e := e.(type) {
		case event.Result:
			result = &e
		case event.Usage:
			usage = e
		case event.RateLimit:
			limit = &e
		}
	}
	return b.String(), result, usage, limit
}

func (b *bench) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Env = b.dir, b.env
	out, err := cmd.CombinedOutput()
	assert.NilError(t, err, string(out))
	return string(out)
}

const realPrompt = "---\nname: ralph-build\nallowed-tools: Bash(ralph task:*), Bash(git add:*), Bash(git commit:*), Read, Edit, Write\n---\nMake a file.\n"

// run runs an agent to its end and returns what it reported.
func (b *bench) run(t *testing.T, name string, s Session) ([]event.Event, error) {
	t.Helper()
	a, err := Lookup(name, nil)
	assert.NilError(t, err)
	s.Mode, s.Env, s.TempDir = Build, b.env, t.TempDir()
	s.Prompts = []Prompt{{Skill: "ralph-build", Text: realPrompt + strings.Repeat("Be careful. ", 20000)}}
	s.Getenv = func(want string) string {
		for _, kv := range b.env {
			if n, v, _ := strings.Cut(kv, "="); n == want {
				return v
			}
		}
		return ""
	}
	command, err := a.Prepare(t.Context(), s)
	assert.NilError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command.Path, command.Args...)
	cmd.Dir, cmd.Env = b.dir, append(b.env, command.Env...)
	cmd.Stdin = strings.NewReader(command.Stdin)
	cmd.WaitDelay = time.Second
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	t.Logf("%s", errs.String())
	d := a.Decoder()
	return append(d.Decode(out), d.End()...), err
}
