package manage

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// Costs belong to the day on which a run has started, also of one that is unfinished or was killed.
func TestCosts(t *testing.T) {
	zone := time.FixedZone("east", 2*60*60)
	evening := time.Date(2031, 2, 3, 21, 30, 0, 0, time.UTC) // 23:30
	usd := func(cost float64) *float64 { return &cost }
	owner := host.Owner{Root: "/src/shop", Scope: gitrepo.Scope{Repo: "acme/shop", Branch: "main"}}
	night := runlog.Past{
		Snapshot: runlog.Snapshot{
			Loop: runlog.Loop{ID: "20310203-213000-build", Mode: "build", Branch: "ma\x1b[2Jin", Started: evening},
			Now:  runlog.Now{N: 3, Started: evening.Add(2 * time.Hour), Run: runlog.Usage{CostUSD: usd(0.25), Tokens: &event.Tokens{Input: 5}}},
		},
		Runs: []runlog.Iteration{
			{N: 1, Started: evening, Seconds: 60, CostUSD: usd(1), Done: []string{"a", "b"}, Commits: 2, Tokens: &event.Tokens{Input: 10, Output: 1}},
			{N: 2, Started: evening.Add(time.Hour), Seconds: 30, CostUSD: usd(2), CostEstimated: true},
		},
	}
	other := runlog.Past{
		Snapshot: runlog.Snapshot{Loop: runlog.Loop{ID: "x", Mode: "build", Repo: "acme/shop", Branch: "other", Started: evening, Ended: evening.Add(time.Hour), Stop: "stall", ExitCode: 7}},
		Runs:     []runlog.Iteration{{N: 1, Started: evening, CostUSD: usd(-5)}, {N: 2, Started: evening}},
	}
	loops := []LoopRecord{newLoopRecord(owner, night), newLoopRecord(owner, other)}
	assert.Equal(t, loops[0].Branch, "main")
	assert.Assert(t, loops[0].Ended == nil && loops[0].ExitCode == nil)
	assert.DeepEqual(t, loops[0].Spent, Spent{Runs: 3, Done: 2, Commits: 2, Seconds: 90, Tokens: 16, CostUSD: 3.25, Estimated: true})
	assert.Equal(t, *loops[1].ExitCode, 7)

	costs := Costs(loops, zone)
	assert.DeepEqual(t, costs, []CostRecord{
		{Day: "2031-02-04", Repo: "acme/shop", Branch: "main", Spent: Spent{Runs: 2, Seconds: 30, Tokens: 5, CostUSD: 2.25, Estimated: true}},
		{Day: "2031-02-03", Repo: "acme/shop", Branch: "main", Spent: Spent{Runs: 1, Done: 2, Commits: 2, Seconds: 60, Tokens: 11, CostUSD: 1}},
		{Day: "2031-02-03", Repo: "acme/shop", Branch: "other", Spent: Spent{Runs: 2, Unknown: 1}},
	})
	assert.DeepEqual(t, TotalCost(costs), Spent{Runs: 5, Done: 2, Commits: 2, Seconds: 90, Tokens: 16, CostUSD: 3.25, Estimated: true, Unknown: 1})
	assert.Equal(t, len(Costs(nil, zone)), 0)
}
