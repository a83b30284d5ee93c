//go:build unix

package drivertest

import (
	"os"
	"syscall"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// ownerOf returns whom a file belongs to.
func ownerOf(info os.FileInfo) (lifecycle.User, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return lifecycle.User{}, false
	}
	return lifecycle.User{UID: int(st.Uid), GID: int(st.Gid)}, true
}
