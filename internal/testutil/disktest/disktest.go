//go:build linux

// Package disktest mounts a small file system, which tests can fill.
package disktest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
)

// Small mounts a file system of 4 MiB for a test, which is skipped without root.
func Small(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	assert.NilError(t, unix.Mount("small", dir, "tmpfs", 0, "size=4m"))
	t.Cleanup(func() { assert.Check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// Fill uses all free space of a file system. free releases it.
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
