package plugin

import (
	"errors"
	"strings"
	"syscall"

	"github.com/docker-ralph/docker-ralph/hint"
)

// DiskError adds to an error that comes from a full disk what helps. The engine and
// the programs that are called say so only in their texts.
func DiskError(err error) error {
	if err == nil || !errors.Is(err, syscall.ENOSPC) && !strings.Contains(strings.ToLower(err.Error()), "no space left on device") {
		return err
	}
	return hint.Wrap(err, `free disk space ("docker system df" shows what the engine uses, "docker ralph clean" removes a sandbox), then run the command again`)
}
