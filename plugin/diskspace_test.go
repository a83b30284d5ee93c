package plugin

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/hint"
)

// The errors are a file's, git's and an engine's.
func TestFullDiskHint(t *testing.T) {
	for _, err := range []error{
		fmt.Errorf("writing the run record: %w", syscall.ENOSPC),
		errors.New("git unpack-objects: unable to write loose object file: No space left on device"),
		errors.New("creating sandbox x: Error response from daemon: mkdir /var/lib/docker/overlay2/1: no space left on device"),
	} {
		assert.Equal(t, len(hint.Of(DiskError(err))), 1, err.Error())
		assert.ErrorIs(t, DiskError(err), err)
	}
	other := errors.New("no such file")
	assert.Equal(t, DiskError(other), other)
	assert.NilError(t, DiskError(nil))
}
