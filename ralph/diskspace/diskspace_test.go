package diskspace_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/disktest"
	"github.com/docker-ralph/docker-ralph/ralph/diskspace"
)

func TestFull(t *testing.T) {
	dir := disktest.Small(t)
	missing := filepath.Join(dir, "missing")
	assert.Equal(t, diskspace.Full("", missing, dir, "/proc"), "")
	free := disktest.Fill(t, dir)
	assert.Equal(t, diskspace.Full("/proc", missing, dir), dir)
	free()
	assert.Equal(t, diskspace.Full(dir), "")

	assert.NilError(t, unix.Mount("small", dir, "", unix.MS_REMOUNT, "nr_inodes=16"))
	assert.Equal(t, diskspace.Full(dir), dir)
}
