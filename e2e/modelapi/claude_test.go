package modelapi

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/fs"
	"gotest.tools/v3/poll"
)

// host is a place where the real claude and ralph work, without a sandbox.
type host struct {
	t   *testing.T
	dir string
	env []string
}

func newHost(t *testing.T, apiURL string) *host {
	t.Helper()
	claude := os.Getenv("CLAUDE_BIN")
	if claude == "" {
		t.Skip("set CLAUDE_BIN to the path of a real claude")
	}
	bin := t.TempDir()
	assert.NilError(t, os.Symlink(claude, filepath.Join(bin, "claude")))
	out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "ralph"), "github.com/docker-ralph/docker-ralph/cmd/ralph").CombinedOutput()
	assert.NilError(t, err, string(out))
	h := &host{t: t, dir: fs.NewDir(t, "repo", fs.WithDir("specs", fs.WithFile("shop.md", "# Shop\nThree files.\n"))).Path()}
	h.env = []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TERM=xterm",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@t", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@t",
		"ANTHROPIC_BASE_URL=" + apiURL, "ANTHROPIC_API_KEY=test-key",
		`RALPH_CONFIG={"agent":"claude","permissions":"bypass","sandboxed":true}`,
	}
	h.run("git", "init", "--quiet", "--initial-branch=main")
	h.run("git", "remote", "add", "origin", "https://example.com/acme/shop.git")
	return h
}

func (h *host) run(args ...string) string {
	h.t.Helper()
	cmd := exec.Command("/usr/bin/env", args...)
	cmd.Dir, cmd.Env = h.dir, h.env
	out, err := cmd.CombinedOutput()
	assert.NilError(h.t, err, "%v\n%s", args, out)
	return string(out)
}

const plan = `ralph task plan-sync <<'TASKS'
{"id":"shop/01","t":"Add one","p":0,"spec":"shop.md","steps":["write one.txt"]}
{"id":"shop/02","t":"Add two","p":1,"spec":"shop.md","deps":["shop/01"]}
{"id":"shop/03","t":"Add three","p":2,"spec":"shop.md"}
TASKS`

func work(number string) []Turn {
	return []Turn{
		Bash("ralph task claim shop/0" + number),
		{Text: "Writing it.", Tools: []Tool{{"Bash", map[string]string{
			"command": fmt.Sprintf("echo %[1]s >%[1]s.txt && git add -A && git commit -q -m 'Add %[1]s'", number), "description": "Commit",
		}}}},
		Bash(fmt.Sprintf(`ralph task done shop/0%s --result "{\"commit\":\"$(git rev-parse HEAD)\"}"`, number)),
		Say("Done."),
	}
}

// TestRealClaude plans three tasks and builds them, with a real claude and no
// model. It shows that the skills arrive with the backlog in them.
func TestRealClaude(t *testing.T) {
	api := New(Sessions([]Turn{Bash(plan), Say("Planned.")}, work("1"), work("2"), work("3")))
	server := httptest.NewServer(api)
	defer server.Close()
	h := newHost(t, server.URL)

	out := h.run("ralph", "plan")
	assert.Assert(t, cmp.Contains(out, "Planned."))
	assert.Assert(t, cmp.Contains(out, "━━ Done (success) | cost: $0.0"))
	out = h.run("ralph", "build", "-n", "3")
	assert.Assert(t, cmp.Contains(out, "🔧 Bash\n   $ ralph task claim shop/01\n"))
	assert.Assert(t, cmp.Contains(out, "All tasks complete. Exiting loop."))
	assert.Equal(t, h.run("git", "log", "--reverse", "--format=%s"), "Add 1\nAdd 2\nAdd 3\n")
	assert.Equal(t, h.run("ralph", "task", "plan-status"), "0 open, 0 active, 3 done, 0 blocked, 0 deleted\n")

	first := api.First()
	assert.Equal(t, len(first), 4)
	for i, wants := range [][]string{
		{"# Plan the work", "<backlog>\n(Bash completed with no output)\n</backlog>"},
		{"# Build one task", "## Task shop/01\nid: shop/01\ntitle: Add one\n", "Usage: ralph task <command>"},
		{"## Task shop/02"},
		{"## Task shop/03"},
	} {
		assert.Equal(t, first[i].Key, "test-key")
		for _, want := range wants {
			assert.Check(t, cmp.Contains(first[i].UserText(), want))
		}
		assert.Check(t, !strings.Contains(first[i].UserText(), "!`"), "a command was not expanded")
	}
	for _, r := range api.Requests() {
		for _, result := range r.Results() {
			assert.Check(t, !result.IsError, result.Text)
		}
	}
}

// TestRealClaudeWithABrokenPrompt: claude ends a session whose prompt cannot
// be expanded with success; ralph says what happened and does not spin.
func TestRealClaudeWithABrokenPrompt(t *testing.T) {
	api := New(Sessions())
	server := httptest.NewServer(api)
	defer server.Close()
	h := newHost(t, server.URL)
	h.run("ralph", "task", "create", "a", "A")
	h.run("mkdir", "-p", ".ralph/prompts")
	h.run("sh", "-c", "echo 'Look: !`echo no coffee >&2; exit 3`' >.ralph/prompts/build.md")
	out := h.run("sh", "-c", "ralph build; echo exit $?")
	assert.Assert(t, cmp.Contains(out, "exit 1\n"))
	assert.Assert(t, cmp.Contains(out, "Error: agent claude failed 3 times in a row"))
	assert.Assert(t, cmp.Contains(out, "Shell command failed"))
	assert.Equal(t, len(api.Requests()), 0)
}

// TestRealClaudeAsking: without the bypass, claude may use the backlog, as the
// skill allows it, and nothing else.
func TestRealClaudeAsking(t *testing.T) {
	api := New(Sessions([]Turn{Bash("ralph task claim a"), Bash("touch forbidden"), Say("Well.")}))
	server := httptest.NewServer(api)
	defer server.Close()
	h := newHost(t, server.URL)
	h.env[len(h.env)-1] = `RALPH_CONFIG={"agent":"claude","permissions":"ask","sandboxed":true}`
	h.run("ralph", "task", "create", "a", "A")
	out := h.run("ralph", "build", "-n", "1")
	assert.Assert(t, cmp.Contains(out, "failed a\n"))
	requests := api.Requests()
	results := requests[len(requests)-1].Results()
	assert.Equal(t, len(results), 2)
	assert.Assert(t, !results[0].IsError, results[0].Text)
	assert.Assert(t, results[1].IsError)
	_, err := os.Stat(filepath.Join(h.dir, "forbidden"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// TestRealClaudeInterrupted: Ctrl+C ends claude and the command that its tool
// runs, and the task goes back.
func TestRealClaudeInterrupted(t *testing.T) {
	api := New(Sessions([]Turn{Bash("ralph task claim a && touch .ralph/ready && exec sleep 600"), Say("Well.")}))
	server := httptest.NewServer(api)
	defer server.Close()
	h := newHost(t, server.URL)
	h.run("ralph", "task", "create", "a", "A")
	var out bytes.Buffer
	cmd := exec.Command("/usr/bin/env", "ralph", "build")
	cmd.Dir, cmd.Env, cmd.Stdout = h.dir, h.env, &out
	assert.NilError(t, cmd.Start())
	poll.WaitOn(t, poll.FileExists(filepath.Join(h.dir, ".ralph", "ready")), poll.WithTimeout(30*time.Second))
	assert.NilError(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	assert.Equal(t, cmd.ProcessState.ExitCode(), 130)
	assert.Assert(t, cmp.Contains(out.String(), "\nWaiting for claude to finish cleanup... Press Ctrl+C again to force quit.\n"))
	assert.Assert(t, cmp.Contains(out.String(), "\nfailed a\nderegistered "))
	assert.Assert(t, cmp.Contains(h.run("ralph", "task", "plan-status"), "1 open, 0 active"))
}
