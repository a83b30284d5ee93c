package loop

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/prices"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
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
			return usage.Spent{Models: map[usage.Key]usage.Tokens{{Model: "before"}: {Input: 1e9}}, Unknown: 5}, nil
		}
		return counts, nil
	}
	var err error
	tr.Prices, err = prices.Builtin()
	assert.NilError(t, err)
	return tr
}

func spentOn(model string, tokens usage.Tokens) usage.Spent {
	return usage.Spent{Models: map[usage.Key]usage.Tokens{{Model: model}: tokens}}
}

// The proxy's count is used where the agent reports nothing.
func TestUsageOfAnAgentThatReportsNothing(t *testing.T) {
	tr := metered(t, say, 1, usage.Spent{
		Models:  map[usage.Key]usage.Tokens{{Model: pricedModel}: {Input: 900_000, Output: 20_000}, {Model: "claude-opus-4-5"}: {Output: 2}, {Model: "idle"}: {}},
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
		"unknown model":  {spentOn(unpricedModel, usage.Tokens{Input: 5}), &event.Tokens{Input: 5}, "the price of the model mine is unknown: it counts as claude-opus-4 towards max_cost_usd"},
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

// A limit of the cost holds for models without a price, whoever counts the tokens.
func TestCostLimitHoldsWithoutAPrice(t *testing.T) {
	counted := func(model string) usage.Spent { return spentOn(model, usage.Tokens{Input: 10_000}) }
	free := script(strings.ReplaceAll(string(report), "0.25", "0"))
	for name, tc := range map[string]struct {
		program script
		counts  usage.Spent
		own     map[string]config.Price
		err     string // after two runs; empty if the limit is not reached
	}{
		"model of a vendor":    {say, counted("claude-opus-9"), nil, "cost limit reached: at most $0.30 of $0.20 (max_cost_usd)"},
		"of an unknown vendor": {say, counted("mine"), nil, "cost limit reached: at most $0.30 of $0.20 (max_cost_usd)"},
		"reported as free":     {free, counted("mine"), nil, "cost limit reached: at most $0.30 of $0.20 (max_cost_usd)"},
		"own price":            {say, counted("mine"), map[string]config.Price{"mine": {Input: 12}}, "cost limit reached: $0.24 of $0.20 (max_cost_usd)"},
		"free by own price":    {say, counted("mine"), map[string]config.Price{"mine": {}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tr := metered(t, tc.program, 2, tc.counts)
			tr.Prices = tr.Prices.With(tc.own)
			tr.MaxIterations, tr.Bounds.MaxCostUSD = 3, 0.2
			result, err := Run(t.Context(), tr.Options)
			if tc.err == "" {
				assert.NilError(t, err)
				assert.Equal(t, len(result.Iterations), 3)
				return
			}
			assert.Error(t, err, tc.err)
			assert.Equal(t, result.Stop, MaxCost)
			assert.Equal(t, len(result.Iterations), 2)
		})
	}
}

const tokensOnly = script(`echo '{"type":"result","subtype":"success","num_turns":1,"usage":{"input_tokens":60,"output_tokens":8}}'; `)

// Without a proxy that counts, the reported tokens have a price.
func TestReportedTokensHaveAPrice(t *testing.T) {
	for model, tc := range map[string]struct {
		known bool
		err   string
	}{
		pricedModel:     {true, "cost limit reached: $0.0001 of $0.0001 (max_cost_usd)"},
		"claude-opus-9": {false, "cost limit reached: at most $0.0015 of $0.0001 (max_cost_usd)"},
		"":              {false, "cost limit reached: at most $0.0015 of $0.0001 (max_cost_usd)"}, // of the agent's vendor
	} {
		t.Run(model, func(t *testing.T) {
			tr := metered(t, tokensOnly, 3, usage.Spent{})
			tr.Metered, tr.Session.Model, tr.Bounds.MaxCostUSD = nil, model, 0.0001
			result, err := Run(t.Context(), tr.Options)
			assert.ErrorContains(t, err, tc.err)
			assert.Equal(t, result.Iterations[0].CostUSD != nil, tc.known)
			assert.Equal(t, result.Iterations[0].CostEstimated, tc.known)
		})
	}
}

// What earlier runs have cost at most counts when a loop is resumed.
func TestCostLimitHoldsWhenResumed(t *testing.T) {
	tr := metered(t, say, 3, usage.Spent{})
	tr.Bounds.MaxCostUSD = 0.1
	tr.Earlier = []runlog.Iteration{{Model: "mine", Tokens: &event.Tokens{Input: 10_000}}}
	result, err := Run(t.Context(), tr.Options)
	assert.Error(t, err, "cost limit reached: at most $0.15 of $0.10 (max_cost_usd)")
	assert.Equal(t, len(result.Iterations), 0)
}

// A limit that cannot be enforced is refused as soon as it is known.
func TestCostLimitIsRefusedWithoutFigures(t *testing.T) {
	for name, counts := range map[string]usage.Spent{"nothing": {}, "answers without figures": {Unknown: 2}} {
		t.Run(name, func(t *testing.T) {
			tr := metered(t, say, 3, counts)
			tr.Bounds.MaxCostUSD = 1
			result, err := Run(t.Context(), tr.Options)
			assert.Error(t, err, "the cost of agent claude is unknown: max_cost_usd cannot be enforced")
			assert.Equal(t, result.Stop, Failed)
			assert.Equal(t, len(result.Iterations), 1)
		})
	}
}
