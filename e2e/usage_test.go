//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/e2e/modelapi"
)

// Tokens that the proxy counts, with the real Claude Code as a custom agent: it prints
// text, which has no figures.

const (
	meteredModel = "claude-haiku-4-5" // has a price
	meteredKey   = "sk-ant-e2e-metered"
)

// customClaude configures the agent and returns the flags that select it.
func customClaude(t *testing.T, w *world, sessions ...[]modelapi.Turn) (api *modelapi.Server, flags []string) {
	t.Helper()
	claudeBase(t, w)
	api, url := w.serveModel(t, sessions)
	w.setenv("ANTHROPIC_BASE_URL", url)
	w.setenv("ANTHROPIC_API_KEY", meteredKey)
	w.configure(t, fmt.Sprintf(`[agents.mine]
command = ["env", "IS_SANDBOX=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "claude", "-p", "--permission-mode", "bypassPermissions", "--model", %q]
keys = "anthropic"
`, meteredModel))
	flags = []string{"--agent", "mine", "--image", os.Getenv("RALPH_TEST_CLAUDE_BASE")}
	w.ok(t, append(flags, "task", "create", "shop/01", "Add one")...)
	return api, flags
}

type meteredReport struct {
	Stop       string
	Iterations []struct {
		Outcome, Model string
		Tokens         struct{ Input, Output int }
		Cost           float64 `json:"cost_usd"`
		Estimated      bool    `json:"cost_estimated"`
	}
}

func TestTokensOfAnAgentThatReportsNone(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		api, flags := customClaude(t, w, w.buildTurns("shop/01", "one"))
		res := w.ralph(t, append(flags, "build", "--format", "json")...).expect(t, 0)
		var report meteredReport
		assert.NilError(t, json.Unmarshal([]byte(res.stdout), &report), res.stdout)
		assert.Equal(t, len(report.Iterations), 1)
		it, requests := report.Iterations[0], len(api.Requests())
		assert.Assert(t, requests >= 5)
		assert.Equal(t, it.Tokens.Input, 100*requests)
		assert.Equal(t, it.Tokens.Output, 20*requests)
		assert.Equal(t, it.Model, meteredModel)
		assert.Assert(t, it.Estimated)
		assert.Equal(t, fmt.Sprintf("%.6f", it.Cost), fmt.Sprintf("%.6f", float64(requests)*(100*1+20*5)/1e6))
		assert.Check(t, is.Contains(res.stderr, "Done with shop/01."), "the answers arrived")
		for _, r := range api.Requests() {
			assert.Equal(t, r.Key, meteredKey)
		}
		w.assertNowhere(t, meteredKey)
	})
}

// A limit ends a run while it spends.
func TestTokenLimitStopsAnAgentThatReportsNone(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		const turns = 600
		session := []modelapi.Turn{modelapi.Bash("ralph task claim shop/01")}
		for range turns {
			session = append(session, modelapi.Bash("sleep 0.5"))
		}
		api, flags := customClaude(t, w, session)
		res := w.ralph(t, append(flags, "build", "--max-tokens", "600")...).expect(t, 5)
		assert.Check(t, is.Contains(res.stderr, "of 600 (max_tokens)"))
		assert.Check(t, is.Contains(res.stdout, "Iteration 1: limit reached shop/01"))
		assert.Check(t, is.Contains(res.stdout, " | "+meteredModel+" | "))
		spent := len(api.Requests())
		assert.Assert(t, spent >= 5 && spent < turns/2, spent)
		assert.Equal(t, w.ok(t, append(flags, "task", "plan-status")...), "1 open, 0 active, 0 done, 0 blocked, 0 deleted\n")
	})
}
