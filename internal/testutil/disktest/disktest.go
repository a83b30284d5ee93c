//go:build linux

// Package disktest gives tests a real file system that they can fill.
package disktest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
)

// Small mounts a file system of 4 MiB for a test, which is skipped where only root
// may mount one.
func Small(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("small", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skip("mounting a file system:", err)
	}
	t.Cleanup(func() { assert.Check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// Fill takes all the space of a file system that is left. free gives it back.
func Fill(t testing.TB, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filling")
	f, err := os.Create(path)
	assert.NilError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	assert.ErrorIs(t, err, unix.ENOSPC)
	assert.NilError(t, errors.Join(f.Close()))
	return func() { assert.NilError(t, os.Remove(path)) }
}
