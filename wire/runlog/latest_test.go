package runlog

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func TestLatest(t *testing.T) {
	top := t.TempDir()
	assert.Check(t, Latest(filepath.Join(top, "missing")).IsZero())
	assert.Check(t, Latest(top).IsZero())
	old, l := create(t, top, noon), create(t, top, noon.Add(time.Hour))
	assert.Check(t, Latest(top).IsZero(), "no run yet")
	assert.NilError(t, l.Append(Iteration{N: 1}))
	first := Latest(top)
	assert.Check(t, !first.IsZero())
	// A later run of an earlier loop.
	assert.NilError(t, old.Append(Iteration{N: 1}))
	later := first.Add(time.Minute)
	assert.NilError(t, os.Chtimes(filepath.Join(top, old.name(iterationsFile)), later, later))
	assert.Check(t, Latest(top).Equal(later))
}

func TestLatestFollowsNoLinks(t *testing.T) {
	top, elsewhere := t.TempDir(), t.TempDir()
	l := create(t, elsewhere, noon)
	assert.NilError(t, l.Append(Iteration{N: 1}))
	assert.NilError(t, os.Mkdir(filepath.Join(top, ".ralph"), 0o755))
	assert.NilError(t, os.Symlink(filepath.Join(elsewhere, dir), filepath.Join(top, dir)))
	assert.Check(t, Latest(top).IsZero())
}
