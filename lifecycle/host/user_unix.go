//go:build unix

package host

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// InvokingUser returns the user that new files in the worktree belong to. For root it is
// the owner of the worktree: "sudo docker ralph" leaves no files of root there. Outside
// Linux the engine maps users itself.
func InvokingUser(root string) (lifecycle.User, error) {
	if runtime.GOOS != "linux" {
		return imageUser, nil
	}
	user := lifecycle.User{UID: os.Getuid(), GID: os.Getgid()}
	if user.UID != 0 {
		return user, nil
	}
	info, err := os.Stat(root)
	if err != nil {
		return lifecycle.User{}, fmt.Errorf("reading the worktree: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		user = lifecycle.User{UID: int(st.Uid), GID: int(st.Gid)}
	}
	return user, nil
}
