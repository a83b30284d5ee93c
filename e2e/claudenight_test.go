//go:build unix

package e2e

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/e2e/modelapi"
)

// night runs the real Claude Code without repeated requests of its own, which would take minutes.
func (w *world) night(t *testing.T, sessions [][]modelapi.Turn) (claude func(args ...string) *exec.Cmd) {
	t.Helper()
	base := claudeBase(t, w)
	_, url := w.serveModel(t, sessions)
	w.setenv("ANTHROPIC_BASE_URL", url)
	w.setenv("ANTHROPIC_API_KEY", "sk-ant-e2e-a-night")
	w.setenv("CLAUDE_CODE_MAX_RETRIES", "0")
	w.setenv("API_TIMEOUT_MS", "3000")
	flags := []string{"--agent", "claude", "--base", base, "--env", "CLAUDE_CODE_MAX_RETRIES", "--env", "API_TIMEOUT_MS"}
	return func(args ...string) *exec.Cmd { return w.docker(slices.Concat([]string{"ralph"}, flags, args)...) }
}

// A model API that misbehaves in every way that passes by itself, and runs that go wrong, cost no
// task anything that is not theirs.
func TestClaudeWorksThroughANight(t *testing.T) {
	onlyInMatrix(t)
	onEngines(t, func(t *testing.T, w *world) {
		refused := func(status int, text string) []modelapi.Turn { return []modelapi.Turn{{Status: status, Refusal: text}} }
		claude := w.night(t, [][]modelapi.Turn{
			refused(http.StatusInternalServerError, "Internal server error"),
			w.buildTurns("t/1", "one"),
			refused(http.StatusServiceUnavailable, "upstream connect error"),
			{{Reset: true}},
			w.buildTurns("t/2", "two"),
			{{Silent: true}},
			refused(http.StatusBadGateway, "Bad gateway"),
			w.buildTurns("t/3", "three"),
			refused(529, "Overloaded. Please try again in 1s."),
			{modelapi.Bash("ralph task claim t/4"), {Reset: true}},
			{modelapi.Bash("ralph task claim t/4 && kill -9 $PPID")},
			w.buildTurns("t/4", "four"),
			{{Refusal: "This request would exceed your account's rate limit. Please try again in 1s."}},
			w.buildTurns("t/5", "five"),
		})
		for _, id := range []string{"t/1", "t/2", "t/3", "t/4", "t/5"} {
			start(t, claude("task", "create", id, "Add "+id)).wait(t).expect(t, 0)
		}

		res := start(t, claude("build", "--format", "json")).iterations(t, 14).expect(t, 0)

		var report struct {
			Stop       string
			Iterations []struct{ Outcome string }
			Totals     struct{ Commits int }
		}
		assert.NilError(t, json.Unmarshal([]byte(res.stdout), &report), res.stdout)
		assert.Equal(t, report.Stop, "complete")
		assert.Equal(t, report.Totals.Commits, 5)
		var outcomes []string
		for _, it := range report.Iterations {
			outcomes = append(outcomes, it.Outcome)
		}
		const away = "model unavailable"
		assert.DeepEqual(t, outcomes, []string{
			away, "done", away, away, "done", away, away, "done", "rate limited", away, "failed", "done", "rate limited", "done",
		})
		retries := map[string]int{}
		var tasks []struct {
			ID      string
			Retries int `json:"retries"`
		}
		listed := start(t, claude("task", "list", "--format", "json")).wait(t).expect(t, 0)
		assert.NilError(t, json.Unmarshal([]byte(listed.stdout), &tasks), listed.stdout)
		for _, task := range tasks {
			retries[task.ID] = task.Retries
		}
		assert.DeepEqual(t, retries, map[string]int{"t/1": 0, "t/2": 0, "t/3": 0, "t/4": 1, "t/5": 0})
		waits, want := w.waits(t), []string{"500", "503", "ECONNRESET", "timed out", "502", "529", "ECONNRESET", "429"}
		assert.Equal(t, len(waits), len(want), "%q", waits)
		for i, wait := range waits {
			assert.Check(t, is.Contains(wait, want[i]))
		}
	})
}

// waits returns what the loop waited for, as its events say.
func (w *world) waits(t *testing.T) (all []string) {
	t.Helper()
	for line := range strings.Lines(w.ok(t, "events")) {
		var e struct{ Type, State, Text string }
		assert.NilError(t, json.Unmarshal([]byte(line), &e), line)
		if e.State == "rate_limited" || e.State == "retrying" {
			all = append(all, e.Text)
		}
	}
	return slices.Compact(all)
}

// What stays wrong until a setting is changed ends the loop at once, and charges no task.
func TestClaudeEndsForGood(t *testing.T) {
	onlyInMatrix(t)
	onEngines(t, func(t *testing.T, w *world) {
		for _, tc := range []struct {
			name string
			turn modelapi.Turn
			want string
		}{
			{"no credit", modelapi.Turn{Status: http.StatusPaymentRequired, Refusal: "Your credit balance is too low"}, "the model's account has no credit"},
			{"no right", modelapi.Turn{Status: http.StatusForbidden, Refusal: "Your organization has no access"}, "the model's endpoint rejected the key"},
			{"a refused key", modelapi.Turn{Status: http.StatusUnauthorized, Refusal: "invalid x-api-key"}, "the model's endpoint rejected the key"},
			{"an unknown model", modelapi.Turn{Status: http.StatusNotFound, Refusal: "model: claude-nothing"}, "the model is not available to this account"},
			{"a long prompt", modelapi.Turn{Status: http.StatusBadRequest, Refusal: "prompt is too long: 210000 tokens > 200000 maximum"}, "too long"},
		} {
			claude := w.night(t, [][]modelapi.Turn{{tc.turn}})
			start(t, claude("task", "create", "t/1", "Add one")).wait(t) // refused but for the first time

			res := start(t, claude("build")).wait(t).expect(t, 1)

			assert.Check(t, is.Contains(res.stderr, tc.want), tc.name)
			assert.Check(t, is.Contains(res.stderr, "\nHint: "), tc.name)
			assert.Check(t, !strings.Contains(res.stdout, "Iteration 2"), tc.name)
			shown := start(t, claude("task", "show", "t/1")).wait(t).expect(t, 0).stdout
			assert.Check(t, !strings.Contains(shown, "Retries:"), "%s: %s", tc.name, shown)
		}
	})
}
