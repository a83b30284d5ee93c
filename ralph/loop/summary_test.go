package loop

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

func TestReceipt(t *testing.T) {
	t.Parallel()
	cost := 0.3121
	it := runlog.Iteration{
		N: 2, Tasks: []string{"auth/02"}, Outcome: "done", Commit: "9f1c2ab77", Seconds: 250, Model: "opus",
		Tokens: &event.Tokens{Input: 9002, Output: 2090, CacheRead: 70112}, CostUSD: &cost,
		Checks: []runlog.Check{{Command: "make"}, {Command: "make test"}}, Retries: 1,
	}
	assert.Equal(t, line(it), "Iteration 2: done auth/02 | commit 9f1c2ab | 4m10s | opus | "+
		"81,204 tokens (70,112 cached, 2,090 out) | $0.3121 | 2 checks passed | 1 retry")
	it = runlog.Iteration{N: 3, Outcome: "checks failed", Checks: []runlog.Check{{Failure: "failed with exit code 1"}}, Retries: 3, Denied: 1, HookErrors: 2}
	assert.Equal(t, line(it), "Iteration 3: checks failed | 0s | unknown tokens | cost unknown | check failed with exit code 1 | 3 retries | 1 tool call denied | 2 hook errors")
}
