package backlog

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/internal/testutil/disktest"
)

// A full disk is reported and changes nothing; the store recovers with free space.
func TestFullDisk(t *testing.T) {
	dir := disktest.Small(t)
	path := filepath.Join(dir, ".ralph", "tasks.db")
	s := openStore(t, path, testScope())
	add(t, s, "a")
	check := func(err error) {
		t.Helper()
		assert.ErrorIs(t, err, syscall.ENOSPC)
		assert.Error(t, err, "writing task database "+path+": no space left on device")
		assert.DeepEqual(t, hint.Of(err), []string{"free some disk space"})
	}
	free := disktest.Fill(t, dir)
	large := NewTask{Slug: "b", Title: strings.Repeat("x", 1<<20)}
	check(s.Create(t.Context(), large)) // SQLITE_FULL
	assert.NilError(t, s.Close())
	free()
	free = disktest.Fill(t, dir)
	s, err := Open(t.Context(), path, testScope())
	if err == nil {
		err = errors.Join(s.Create(t.Context(), large), s.Close())
	}
	check(err) // possibly SQLITE_IOERR
	free()
	s = openStore(t, path, testScope())
	add(t, s, "c")
	assert.Equal(t, query(t, path, "SELECT slug FROM tasks ORDER BY slug"), "a\nc\n")
}
