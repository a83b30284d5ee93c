package container

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// folderID tells a folder from another one that has its path later. Numbers of
// folders are used again, so the time when it was made belongs to it, where the
// file system knows that. It is empty for one that cannot be looked at.
func folderID(path string) string {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return ""
	}
	return fmt.Sprintf("%d:%d %d %d.%d", st.Dev_major, st.Dev_minor, st.Ino, st.Btime.Sec, st.Btime.Nsec)
}
