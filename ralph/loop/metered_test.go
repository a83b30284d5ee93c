package loop

import (
	"context"
	"errors"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/prices"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/usage"
)

const pricedModel, unpricedModel = "claude-haiku-4-5-20251001", "mine"

// metered returns a testLoop whose proxy counts the same for each run.
func metered(t *testing.T, program script, runs int, counts usage.Spent) *testLoop {
	t.Helper()
	tr := newTestLoop(t, agent.Plan, program, nil)
	tr.MaxIterations, tr.timing.poll = runs, time.Hour
	begun := false // the first query of a run only ignores what was before
	tr.Metered = func(context.Context) (usage.Spent, error) {
		if begun = !begun; begun {
			return usage.Spent{Models: map[string]usage.Tokens{"before": {Input: 1e9}}, Unknown: 5}, nil
		}
		return counts, nil
	}
	var err error
	tr.Prices, err = prices.Builtin()
	assert.NilError(t, err)
	return tr
}

func spentOn(model string, tokens usage.Tokens) usage.Spent {
	return usage.Spent{Models: map[string]usage.Tokens{model: tokens}}
}

// The proxy's count is used where the agent reports nothing.
func TestUsageOfAnAgentThatReportsNothing(t *testing.T) {
	tr := metered(t, say, 1, usage.Spent{
		Models:  map[string]usage.Tokens{pricedModel: {Input: 900_000, Output: 20_000}, "claude-opus-4-5": {Output: 2}, "idle": {}},
		Unknown: 1200,
	})
	tr.Bounds.MaxTokens = 1e9
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	it := report.Iterations[0]
	assert.DeepEqual(t, it.Tokens, &event.Tokens{Input: 900_000, Output: 20_002})
	assert.Assert(t, it.CostUSD != nil && *it.CostUSD > 1.0 && *it.CostUSD < 1.001)
	assert.Assert(t, it.CostEstimated && report.Totals.CostEstimated)
	assert.Equal(t, it.Model, pricedModel)
	assert.Assert(t, cmp.Contains(tr.out.String(), " | "+pricedModel+" | 920,002 tokens"))
	assert.Assert(t, cmp.Contains(tr.out.String(), " | ~$1.0001\n"))
	assert.Assert(t, cmp.Contains(tr.out.String(), " | tokens: 920,002 | cost: ~$1.00\n"))
	assert.Assert(t, cmp.Contains(tr.errs.String(), "Warning: 1,200 answers of the model reported no tokens and do not count towards the limits\n"))
}

// A model without a price has tokens alone. Nothing counted is unknown, not zero.
func TestUsageWithoutAPrice(t *testing.T) {
	for name, tc := range map[string]struct {
		counts  usage.Spent
		tokens  *event.Tokens
		warning string
	}{
		"unknown model":  {spentOn(unpricedModel, usage.Tokens{Input: 5}), &event.Tokens{Input: 5}, "the price of the model mine is unknown: max_cost_usd is not enforced"},
		"nothing":        {usage.Spent{}, nil, "agent claude does not report its cost: max_cost_usd is not enforced"},
		"only unknown":   {usage.Spent{Unknown: 2}, nil, "agent claude does not report its tokens: max_tokens is not enforced"},
		"invalid counts": {spentOn(unpricedModel, usage.Tokens{Input: -5}), nil, "agent claude does not report its tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := metered(t, say, 1, tc.counts)
			tr.Bounds.MaxCostUSD, tr.Bounds.MaxTokens = 1, 1e9
			report, err := Run(t.Context(), tr.Options)
			assert.NilError(t, err)
			assert.DeepEqual(t, report.Iterations[0].Tokens, tc.tokens)
			assert.Assert(t, report.Iterations[0].CostUSD == nil && !report.Totals.CostEstimated)
			assert.Assert(t, cmp.Contains(tr.errs.String(), tc.warning))
		})
	}
}

// What the agent reports is shown; limits apply to the larger of both.
func TestLimitsApplyToUnreportedUsage(t *testing.T) {
	tr := metered(t, report, 5, spentOn(pricedModel, usage.Tokens{Input: 300_000}))
	tr.Bounds.MaxTokens = 500_000
	result, err := Run(t.Context(), tr.Options)
	assert.Equal(t, result.Stop, MaxTokens)
	assert.Error(t, err, "token limit reached: 600,000 of 500,000 (max_tokens)")
	assert.Equal(t, len(result.Iterations), 2)
	assert.DeepEqual(t, result.Iterations[0].Tokens, &event.Tokens{Input: 60, Output: 40})
	assert.Equal(t, *result.Iterations[0].CostUSD, 0.25)
	assert.Assert(t, !result.Iterations[0].CostEstimated)
	assert.Equal(t, result.Totals.Tokens, int64(200))

	tr = metered(t, report, 5, spentOn(pricedModel, usage.Tokens{Input: 300_000}))
	tr.Bounds.MaxCostUSD = 0.31
	result, err = Run(t.Context(), tr.Options)
	assert.Equal(t, result.Stop, MaxCost)
	assert.Error(t, err, "cost limit reached: $0.60 of $0.31 (max_cost_usd)")
	assert.Equal(t, result.Totals.CostUSD, 0.5)
}

// A limit stops an agent that reports nothing while it spends.
func TestLimitsStopAnAgentThatReportsNothing(t *testing.T) {
	for name, set := range map[string]func(*Options){
		"token limit reached: 150 of 120 (max_tokens)":          func(o *Options) { o.Bounds.MaxTokens = 120 },
		"cost limit reached: $0.0001 of $0.0001 (max_cost_usd)": func(o *Options) { o.Bounds.MaxCostUSD = 0.00012 },
	} {
		t.Run(name, func(t *testing.T) {
			tr := metered(t, "sleep 100", 5, usage.Spent{})
			tr.timing.poll = 20 * time.Millisecond
			set(&tr.Options)
			calls := 0
			tr.Metered = func(context.Context) (usage.Spent, error) {
				switch calls++; calls {
				case 1:
					return spentOn("before", usage.Tokens{Input: 1e9}), nil
				case 3:
					return usage.Spent{}, errors.New("the proxy restarts")
				case 2, 4, 5:
					return spentOn(pricedModel, usage.Tokens{Input: 50}), nil
				}
				return usage.Spent{}, nil
			}
			report, err := Run(t.Context(), tr.Options)
			assert.Error(t, err, name)
			assert.Equal(t, len(report.Iterations), 1)
			assert.Equal(t, report.Iterations[0].Outcome, outcomeLimit)
			assert.DeepEqual(t, report.Iterations[0].Tokens, &event.Tokens{Input: 150})
		})
	}
}
