package runlog

import (
	"io/fs"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// A loop that finds nothing to do does not hide the one before: not from logs, not from a loop that
// resumes it, and not from the status.
func TestLoopsWithoutRunsHideNoOthers(t *testing.T) {
	top := t.TempDir()
	any := func(Loop) bool { return true }
	night := create(t, top, noon)
	cost := 3.5
	assert.NilError(t, night.SetNow(Now{N: 1, Started: noon}))
	assert.NilError(t, night.Append(Iteration{N: 1, Outcome: "done", Seconds: 60, CostUSD: &cost}))
	assert.NilError(t, night.Finish(LoopEnd{Stop: "max_cost_usd", ExitCode: 5}))
	found := func() string {
		t.Helper()
		r, err := Find(top, any)
		assert.NilError(t, err)
		defer r.Close()
		return r.Loop.ID
	}
	for i := range 3 {
		empty := create(t, top, noon.Add(time.Duration(i+1)*time.Hour))
		assert.Equal(t, found(), empty.Loop.ID, "it runs")
		assert.NilError(t, empty.Finish(LoopEnd{Stop: "complete"}))
		assert.Equal(t, found(), night.Loop.ID)
		assert.Assert(t, !Recent(top, 1, any)[0].Worked())
	}
	failed := create(t, top, noon.Add(5*time.Hour))
	assert.NilError(t, failed.Finish(LoopEnd{Stop: "failed", ExitCode: 1}))
	assert.Equal(t, found(), failed.Loop.ID, "why it failed is of interest")

	resumed, iterations, err := Resume(top, Loop{Mode: night.Loop.Mode, Repo: night.Loop.Repo, Branch: night.Loop.Branch, Started: noon.Add(6 * time.Hour)}, func(string) bool { return false })
	assert.NilError(t, err)
	assert.Equal(t, resumed.Loop.ID, night.Loop.ID)
	assert.Equal(t, len(iterations), 1)
	assert.NilError(t, resumed.Finish(LoopEnd{Stop: "complete"}))

	past := History(top)
	assert.Equal(t, len(past), 5)
	assert.Equal(t, *past[4].Runs[0].CostUSD, cost)
}

// Without any run, the newest loop is found and resumed.
func TestLoopsWithoutRunsAlone(t *testing.T) {
	top := t.TempDir()
	_, _, err := Resume(top, Loop{}, func(string) bool { return false })
	assert.ErrorIs(t, err, fs.ErrNotExist)
	var last *Log
	for i := range 2 {
		last = create(t, top, noon.Add(time.Duration(i)*time.Hour))
		assert.NilError(t, last.Finish(LoopEnd{Stop: "complete"}))
	}
	r, err := Find(top, func(Loop) bool { return true })
	assert.NilError(t, err)
	defer r.Close()
	assert.Equal(t, r.Loop.ID, last.Loop.ID)
	resumed, iterations, err := Resume(top, Loop{Mode: last.Loop.Mode, Repo: last.Loop.Repo, Branch: last.Loop.Branch}, func(string) bool { return false })
	assert.NilError(t, err)
	assert.Equal(t, len(iterations), 0)
	assert.Equal(t, resumed.Loop.ID, last.Loop.ID)
}
