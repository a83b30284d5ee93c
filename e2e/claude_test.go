//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/e2e/modelapi"
)

// The real Claude Code, whose model is played by a script.

// syncPlan is what the planning "model" does.
const syncPlan = `ralph task plan-sync <<'TASKS'
{"id":"shop/01","t":"Add one","p":0,"spec":"shop.md","steps":["write one"]}
{"id":"shop/02","t":"Add two","p":1,"spec":"shop.md","deps":["shop/01"]}
{"id":"shop/03","t":"Add three","p":2,"spec":"shop.md"}
TASKS`

// buildTurns is what the building "model" does with one task.
func (w *world) buildTurns(id, file string) []modelapi.Turn {
	return []modelapi.Turn{
		modelapi.Bash("ralph task claim " + id),
		{Text: "Writing it.", Tools: []modelapi.Tool{{Name: "Write", Input: map[string]string{"file_path": filepath.Join(w.repo, file), "content": file + "\n"}}}},
		modelapi.Bash("git add -A && git commit -q -m 'Add " + file + "'"),
		modelapi.Bash(fmt.Sprintf(`ralph task done %s --result "{\"commit\":\"$(git rev-parse HEAD)\"}"`, id)),
		modelapi.Say("Done with " + id + "."),
	}
}

// claudeBase is an image with Claude Code, of which the engine has the agent's
// image.
func claudeBase(t *testing.T, w *world) string {
	t.Helper()
	base := os.Getenv("RALPH_TEST_CLAUDE_BASE")
	if base == "" {
		skipOrFail(t, "RALPH_TEST_CLAUDE_BASE names no image with Claude Code; \"make test\" makes one")
	}
	shared.images.build(t, w, "claude", base)
	return base
}

// The real Claude Code plans and builds. Only its model is played by a script.
func TestClaudePlansAndBuilds(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		base := claudeBase(t, w)
		const key = "sk-ant-e2e-the-real-agent"
		api, url := w.serveModel(t, [][]modelapi.Turn{
			{modelapi.Bash(syncPlan), modelapi.Say("Planned.")},
			w.buildTurns("shop/01", "one"), w.buildTurns("shop/02", "two"), w.buildTurns("shop/03", "three"),
		})
		w.setenv("ANTHROPIC_BASE_URL", url)
		w.setenv("ANTHROPIC_API_KEY", key)
		claude := func(args ...string) result {
			return w.ralph(t, append([]string{"--agent", "claude", "--base", base}, args...)...).expect(t, 0)
		}
		argvs := watchArgv(t, key, agentArgv)

		planned := claude("plan")
		assert.Equal(t, claude("task", "plan-status").stdout, "2 open, 0 active, 0 done, 1 blocked, 0 deleted\n")
		assert.Equal(t, w.git(t, "rev-list", "--count", "HEAD"), "1", "planning implements nothing")
		assert.Check(t, is.Contains(planned.stdout, "Planned."))

		built := start(t, w.docker("ralph", "--agent", "claude", "--base", base, "build", "-n", "3")).iterations(t, 3).expect(t, 0)
		assert.Equal(t, w.git(t, "log", "--reverse", "--format=%s|%an", "HEAD~3.."), "Add one|Una User\nAdd two|Una User\nAdd three|Una User")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
		assert.Equal(t, claude("task", "plan-status").stdout, "0 open, 0 active, 3 done, 0 blocked, 0 deleted\n")
		assert.Equal(t, w.read(t, "three"), "three\n")
		w.assertOwnership(t)
		for _, part := range []string{"🔧 Write", "Done with shop/03.", "━━ Done (success) | cost: $", "All tasks complete. Exiting loop."} {
			assert.Check(t, is.Contains(built.stdout, part))
		}

		asked := len(api.Requests())
		assert.Check(t, is.Contains(claude("build").stdout, "All tasks complete. Exiting loop."))
		assert.Equal(t, len(api.Requests()), asked, "no agent was started")
		assert.DeepEqual(t, argvs(), map[string]bool{key: false, agentArgv: true})
		assert.NilError(t, noFileHolds(w.repo, key))
		for _, r := range api.Requests() {
			assert.Equal(t, r.Key, key)
			for _, tool := range r.Results() {
				assert.Check(t, !tool.IsError, tool.Text)
			}
		}
	})
}

// The real Claude Code runs into a rate limit, then delivers what does not
// pass the checks, then repairs it.
func TestClaudeContinuesAfterARateLimitAndAFailedCheck(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		base := claudeBase(t, w)
		api, url := w.serveModel(t, [][]modelapi.Turn{
			{{Refusal: "This request would exceed your account's rate limit. Please try again in 1s."}},
			w.buildTurns("shop/01", "one"), w.buildTurns("shop/01", "repaired"),
		})
		w.setenv("ANTHROPIC_BASE_URL", url)
		w.setenv("ANTHROPIC_API_KEY", "sk-ant-e2e-a-bad-day")
		w.configure(t, "[checks]\ncommands = [\"ls repaired\"]\n")
		claude := func(args ...string) result {
			return w.ralph(t, append([]string{"--agent", "claude", "--base", base}, args...)...)
		}
		claude("task", "create", "shop/01", "Add one").expect(t, 0)
		before := w.git(t, "rev-parse", "main")

		res := start(t, w.docker("ralph", "--agent", "claude", "--base", base, "build", "--max-cost-usd", "5", "--format", "json")).iterations(t, 3).expect(t, 0)
		var report struct {
			Stop       string
			Iterations []struct {
				Outcome string
				Tasks   []string
				Cost    *float64 `json:"cost_usd"`
			}
			Totals struct{ Commits, Tokens int }
		}
		assert.NilError(t, json.Unmarshal([]byte(res.stdout), &report), res.stdout)
		assert.Equal(t, report.Stop, "complete")
		var outcomes []string
		for _, it := range report.Iterations {
			outcomes = append(outcomes, it.Outcome)
			assert.Check(t, it.Cost != nil)
		}
		assert.DeepEqual(t, outcomes, []string{"rate limited", "checks failed", "done"})
		assert.Equal(t, strconv.Itoa(report.Totals.Commits), w.git(t, "rev-list", "--count", before+"..main"))
		assert.Check(t, report.Totals.Tokens > 0)
		for _, part := range []string{
			"Rate limit of claude (", "Waiting ", "Check: ls repaired", "Check failed with exit code 2", "reopened shop/01", "Check passed",
		} {
			assert.Check(t, is.Contains(res.stderr, part))
		}
		first := api.First()
		assert.Equal(t, len(first), 3)
		assert.Check(t, is.Contains(first[2].UserText(), "The task shop/01 was finished before and is open again"))
		assert.Check(t, is.Contains(first[2].UserText(), "cannot access 'repaired'"))
		assert.Check(t, !strings.Contains(first[1].UserText(), "is open again"))
		w.assertOwnership(t)
		logs := w.logFiles(t, "*.jsonl")
		assert.Equal(t, len(logs), 5, "three streams, the figures and the events: %v", logs)
	})
}

// The loop releases the task of a session that ends early, and not Claude Code's own hook.
func TestClaudeReleasesAnUnfinishedTask(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		base := claudeBase(t, w)
		_, url := w.serveModel(t, [][]modelapi.Turn{{modelapi.Bash("ralph task claim shop/01"), modelapi.Say("Enough for today.")}})
		w.setenv("ANTHROPIC_BASE_URL", url)
		w.setenv("ANTHROPIC_API_KEY", "sk-ant-e2e-gives-back")
		flags := []string{"--agent", "claude", "--base", base}
		w.ok(t, append(flags, "task", "create", "shop/01", "Add one")...)
		res := w.ralph(t, append(flags, "build", "-n", "1")...).expect(t, 10)
		shown := w.ok(t, append(flags, "task", "show", "shop/01")...)
		assert.Check(t, is.Contains(shown, "Status:      open"))
		assert.Check(t, is.Contains(shown, "Retries:     1"))
		assert.Check(t, is.Contains(shown, "Fail reason: session exited without completing task"))
		assert.Check(t, is.Contains(res.stdout, "Iteration 1: released shop/01"))
	})
}

// A key that the endpoint refuses ends the loop within seconds, with the variable
// that holds it.
func TestClaudeWithARejectedKeyEndsTheLoop(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		base := claudeBase(t, w)
		api, url := w.serveModel(t, [][]modelapi.Turn{{{Status: http.StatusUnauthorized, Refusal: "invalid x-api-key"}}})
		w.setenv("ANTHROPIC_BASE_URL", url)
		w.setenv("ANTHROPIC_API_KEY", "sk-ant-e2e-refused")
		flags := []string{"--agent", "claude", "--base", base}
		w.ok(t, append(flags, "task", "create", "shop/01", "Add one")...)
		res := w.ralph(t, append(flags, "build")...).expect(t, 1)
		assert.Check(t, is.Contains(res.stderr, "Error: claude: the model's endpoint rejected the key: HTTP status 401\nHint: check the value of ANTHROPIC_API_KEY\n"))
		assert.Check(t, is.Contains(res.stdout, "↻ request failed (401 authentication_failed), retry 1 of "))
		assert.Check(t, is.Contains(res.stdout, "Iteration 1: failed"))
		assert.Check(t, !strings.Contains(res.stdout, "Done (success)") && !strings.Contains(res.stdout, "Iteration 2"))
		assert.Check(t, len(api.Requests()) < 6, "claude went on asking")
	})
}

// The features that let claude continue after its session are disabled, by switches
// that this version of claude knows.
func TestClaudeDoesNothingAfterItsSession(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		base := claudeBase(t, w)
		api, url := w.serveModel(t, [][]modelapi.Turn{{modelapi.Bash("claude --bg hello"), modelapi.Say("Well.")}})
		w.setenv("ANTHROPIC_BASE_URL", url)
		w.setenv("ANTHROPIC_API_KEY", "sk-ant-e2e-afterlife")
		w.ralph(t, "--agent", "claude", "--base", base, "plan", "-n", "1").expect(t, 0)
		first := api.First()
		assert.Equal(t, len(first), 1)
		assert.Check(t, is.Contains(first[0].Tools, "Bash"))
		for _, tool := range []string{"ScheduleWakeup", "CronCreate", "AskUserQuestion"} {
			assert.Check(t, !first[0].HasTool(tool), tool)
		}
		requests := api.Requests()
		results := requests[len(requests)-1].Results()
		assert.Equal(t, len(results), 1)
		assert.Check(t, is.Contains(results[0].Text, "'--bg' is disabled"))
	})
}

// Ctrl+C ends the real Claude Code and the command of its tool. Its task is released,
// and no process remains.
func TestClaudeIsInterrupted(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		base := claudeBase(t, w)
		_, url := w.serveModel(t, [][]modelapi.Turn{{modelapi.Bash("ralph task claim shop/01 && touch begun && setsid sleep 6789"), modelapi.Say("Well.")}})
		w.setenv("ANTHROPIC_BASE_URL", url)
		w.setenv("ANTHROPIC_API_KEY", "sk-ant-e2e-interrupted")
		flags := []string{"--agent", "claude", "--base", base}
		w.ok(t, append(flags, "task", "create", "shop/01", "Add one")...)
		build := start(t, w.docker(append(append([]string{"ralph"}, flags...), "build")...))
		waitForFile(t, w.pathInside(t, "begun"))
		build.signalGroup(syscall.SIGINT)
		res := build.wait(t).expect(t, 130)
		assert.Check(t, is.Contains(res.stdout, "Waiting for claude to finish cleanup... Press Ctrl+C again to force quit."))
		assert.Check(t, is.Contains(res.stdout, `use "docker ralph stop"`))
		assert.Equal(t, w.ok(t, append(flags, "task", "plan-status")...), "1 open, 0 active, 0 done, 0 blocked, 0 deleted\n")
		w.ok(t, append(flags, "shell", "--", "sh", "-c", "! grep -lz '^67[8]9' /proc/[0-9]*/cmdline")...)
	})
}

// serveModel plays the model for the engine's containers, and returns it with
// its URL.
func (w *world) serveModel(t *testing.T, sessions [][]modelapi.Turn) (*modelapi.Server, string) {
	t.Helper()
	w.useDefaults() // this machine is reached through a proxy only
	api := modelapi.New(modelapi.Sessions(sessions...))
	return api, w.serve(t, api)
}

// serve serves where the engine's containers are, and returns the URL.
func (w *world) serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	if w.engine.Gateway == "" {
		skipOrFail(t, "RALPH_TEST_GATEWAYS names no address for this engine")
	}
	listener, err := net.Listen("tcp", w.engine.Gateway+":0")
	assert.NilError(t, err)
	server := httptest.NewUnstartedServer(handler)
	assert.NilError(t, server.Listener.Close())
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}
