package container

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// folderID identifies a directory by its inode and, because inodes are reused, its birth
// time, if the file system has one. It is empty if the directory cannot be read.
func folderID(path string) string {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return ""
	}
	return fmt.Sprintf("%d:%d %d %d.%d", st.Dev_major, st.Dev_minor, st.Ino, st.Btime.Sec, st.Btime.Nsec)
}
