package runlog

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func TestRunsChangesWithEachRun(t *testing.T) {
	top := t.TempDir()
	assert.Equal(t, Runs(filepath.Join(top, "missing")), "")
	old, l := create(t, top, noon), create(t, top, noon.Add(time.Hour))
	assert.Equal(t, Runs(top), "", "no run yet")
	assert.NilError(t, l.Append(Iteration{N: 1}))
	first := Runs(top)
	assert.Assert(t, first != "")
	assert.Equal(t, Runs(top), first)
	// A run of an earlier loop, by a clock that is behind.
	assert.NilError(t, old.Append(Iteration{N: 1}))
	before := noon.Add(-time.Hour)
	assert.NilError(t, os.Chtimes(filepath.Join(top, old.Loop.ID, iterationsFile), before, before))
	assert.Assert(t, Runs(top) != first)
}
