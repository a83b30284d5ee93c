package runlog

import (
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/disktest"
)

func TestFullDiskLosesOneLine(t *testing.T) {
	top := disktest.Small(t)
	l := create(t, top, noon)
	assert.NilError(t, l.Append(Iteration{N: 1}))
	free := disktest.Fill(t, top)
	// Half of it fits into the last page of the file.
	err := l.Append(Iteration{N: 2, Reason: strings.Repeat("x", 4096)})
	assert.ErrorIs(t, err, syscall.ENOSPC)
	assert.ErrorIs(t, l.save(), syscall.ENOSPC)
	free()
	assert.NilError(t, l.Append(Iteration{N: 3}))
	_, all, err := l.progress()
	assert.NilError(t, err)
	assert.Equal(t, len(all), 2)
	assert.Equal(t, all[1].N, 3)
	assert.NilError(t, l.Finish(LoopEnd{Stop: "complete"}))
	found, err := find(t, top).Reload()
	assert.NilError(t, err)
	assert.Equal(t, found.Stop, "complete")
}
