package host

import (
	"os"
	"runtime"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// imageUser is the user "agent" of the images.
var imageUser = lifecycle.User{UID: 1000, GID: 1000}

// FileOwner returns the owner of new files in a worktree; nil for the current user.
func FileOwner(root string) *runlog.Owner {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		return nil
	}
	user, err := InvokingUser(root)
	if err != nil {
		return nil // then it is root's
	}
	return &runlog.Owner{UID: user.UID, GID: user.GID}
}
