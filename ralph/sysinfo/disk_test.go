package sysinfo

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/disktest"
)

func TestFullDisk(t *testing.T) {
	dir := disktest.Small(t)
	missing := filepath.Join(dir, "missing")
	assert.Equal(t, FullDisk("", missing, dir, "/proc"), "")
	free := disktest.Fill(t, dir)
	assert.Equal(t, FullDisk("/proc", missing, dir), dir)
	free()
	assert.Equal(t, FullDisk(dir), "")

	assert.NilError(t, unix.Mount("small", dir, "", unix.MS_REMOUNT, "nr_inodes=16"))
	assert.Equal(t, FullDisk(dir), dir)
}
