package guest

import "golang.org/x/sys/unix"

// owns tells whether the file belongs to the user and group.
func owns(path string, uid, gid int) bool {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return err == nil && int(st.Uid) == uid && int(st.Gid) == gid
}
