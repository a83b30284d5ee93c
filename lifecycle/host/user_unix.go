//go:build unix

package host

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// InvokingUser is the one whom files in the work tree shall belong to. Root
// works for the owner of the work tree, so that "sudo docker ralph" does not
// leave root's files in somebody's repository. Outside Linux the engine runs
// in a virtual machine that maps owners itself, and the image's own user fits.
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
