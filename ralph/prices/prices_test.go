package prices

import (
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/wire/usage"
)

func TestCost(t *testing.T) {
	t.Parallel()
	table, err := Builtin()
	assert.NilError(t, err)
	million := usage.Tokens{Input: 1e6, Output: 1e6, CacheRead: 1e6, CacheWrite: 1e6}
	for _, tc := range []struct {
		model string
		want  float64 // 0 if unknown
	}{
		{"claude-sonnet-4-5-20250929", 3 + 15 + 0.3 + 3.75},
		{"anthropic/claude-sonnet-4.5", 3 + 15 + 0.3 + 3.75},
		{"claude-opus-4-20250514", 15 + 75 + 1.5 + 18.75},
		{"claude-opus-4-1", 15 + 75 + 1.5 + 18.75},
		{"claude-sonnet-4@20250514", 3 + 15 + 0.3 + 3.75},
		{"gpt-5-2025-08-07", 1.25 + 10 + 0.125 + 1.25},
		{"gpt-6-sol", 2 + 10 + 0.2 + 2.5},
		{"gpt-6.2-sol", 2 + 10 + 0.1 + 2.5},
		{"gemini-2.5-pro", 1.25 + 10 + 0.125 + 1.25},
		{"Claude-Haiku-4-5-latest", 1 + 5 + 0.1 + 1.25},
		// Another model may have another price.
		{"gpt-5-pro", 0},
		{"gpt-5.9", 0},
		{"claude-sonnet-4-7", 0},
		{"llama", 0},
		{"", 0},
	} {
		got, known := table.Cost(tc.model, 0, million)
		assert.Equal(t, known, tc.want != 0, tc.model)
		assert.Assert(t, got > tc.want-1e-9 && got < tc.want+1e-9, "%s: %v", tc.model, got)
	}
}

func TestBuiltinPricesArePlausible(t *testing.T) {
	t.Parallel()
	table, err := Builtin()
	assert.NilError(t, err)
	docs, err := os.ReadFile("../../docs/reference/ralph_cost.md")
	assert.NilError(t, err)
	assert.Assert(t, cmp.Contains(string(docs), "models as of "+table.Date.Format(time.DateOnly)))
	assert.Assert(t, len(table.models) > 40)
	for model, p := range table.models {
		assert.Check(t, p.CacheRead != nil && 0 < *p.CacheRead && *p.CacheRead < p.Input && p.Input < p.Output && p.Output <= 100, "%s: %+v", model, p)
		assert.Check(t, p.CacheWrite == nil || *p.CacheWrite > p.Input, "%s: %+v", model, p)
		assert.Check(t, p.Long == nil || slices.Contains(usage.Sizes(), p.Long.Over), "%s: the proxy does not count this size", model)
		assert.Check(t, vendorOf(model) != "", model)
	}
}

func TestLongPrompts(t *testing.T) {
	t.Parallel()
	table, err := Builtin()
	assert.NilError(t, err)
	million := usage.Tokens{Input: 1e6, Output: 1e6, CacheRead: 1e6}
	for _, tc := range []struct {
		model string
		over  int64
		want  float64
	}{
		{"gpt-6.2-sol", 200_000, 2 + 10 + 0.1},
		{"gpt-6.2-sol", 272_000, 2*(2+0.1) + 1.5*10},
		{"claude-haiku-5-5", 0, 0.1 + 0.5 + 0.01},
		{"claude-haiku-5-5", 200_000, 5 * (0.1 + 0.5 + 0.01)},
		{"gemini-2.5-pro", 200_000, 2*(1.25+0.125) + 1.5*10},
		{"gpt-5.5", 272_000, 5 + 30 + 0.5},
	} {
		got, known := table.Cost(tc.model, tc.over, million)
		assert.Check(t, known && math.Abs(got-tc.want) < 1e-9, "%s over %d: %v", tc.model, tc.over, got)
	}
}

func TestAtMost(t *testing.T) {
	t.Parallel()
	table, err := Builtin()
	assert.NilError(t, err)
	output := usage.Tokens{Output: 1e6}
	for model, want := range map[string]float64{
		"claude-opus-9":                         75,
		"global.anthropic.claude-sonnet-6-v1:0": 75,
		"gpt-7-astra":                           75, // with the surcharge for long prompts
		"o9":                                    75,
		"codex":                                 75,
		"gemini-5":                              20,
		"gemini-4-carbon":                       20,
		"llama":                                 75,
		"":                                      75,
	} {
		got, dearest := table.AtMost(model, 272_000, output)
		assert.Check(t, got == want && dearest != "", "%s: %v (%s)", model, got, dearest)
	}
	got, dearest := table.AtMost("gpt-7", 0, output)
	assert.Check(t, got == 50 && dearest == "gpt-6-astra", "%v (%s)", got, dearest)
}

func TestOwnPrices(t *testing.T) {
	t.Parallel()
	table, err := Builtin()
	assert.NilError(t, err)
	cache := 0.25
	table = table.With(map[string]config.Price{
		"mine": {Input: 1, Output: 2}, "gpt-6.2-sol": {Input: 4, Output: 8, CacheRead: &cache}, "acme/free:7b": {},
	})
	million := usage.Tokens{Input: 1e6, Output: 1e6, CacheRead: 1e6, CacheWrite: 1e6}
	for model, want := range map[string]float64{"mine": 5, "openai/gpt-6-2-sol": 4 + 8 + 0.25 + 4, "free:7b": 0, "gpt-6-sol": 2 + 10 + 0.2 + 2.5} {
		got, known := table.Cost(model, 0, million)
		assert.Check(t, known && math.Abs(got-want) < 1e-9, "%s: %v", model, got)
	}
}
