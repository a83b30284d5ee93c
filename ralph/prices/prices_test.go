package prices

import (
	"os"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

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
		{"gemini-2.5-pro", 1.25 + 10 + 0.125 + 1.25},
		{"Claude-Haiku-4-5-latest", 1 + 5 + 0.1 + 1.25},
		// Another model may have another price.
		{"gpt-5-pro", 0},
		{"gpt-5.9", 0},
		{"claude-sonnet-4-7", 0},
		{"llama", 0},
		{"", 0},
	} {
		got, known := table.Cost(tc.model, million)
		assert.Equal(t, known, tc.want != 0, tc.model)
		assert.Assert(t, got > tc.want-1e-9 && got < tc.want+1e-9, "%s: %v", tc.model, got)
	}
}

func TestBuiltinPricesArePlausible(t *testing.T) {
	t.Parallel()
	table, err := Builtin()
	assert.NilError(t, err)
	docs, err := os.ReadFile("../../docs/loops.md")
	assert.NilError(t, err)
	assert.Assert(t, cmp.Contains(string(docs), "models as of "+table.Date.Format(time.DateOnly)))
	assert.Assert(t, len(table.models) > 40)
	for model, p := range table.models {
		assert.Check(t, 0 < p.CacheRead && p.CacheRead < p.Input && p.Input < p.Output && p.Output <= 100, "%s: %+v", model, p)
		assert.Check(t, p.CacheWrite == 0 || p.CacheWrite > p.Input, "%s: %+v", model, p)
	}
}
