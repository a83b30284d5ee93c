package sysinfo

import "golang.org/x/sys/windows"

// minBytes is the free space of a disk that is not full: SQLite needs it for one change.
const minBytes = 1 << 20

// FullDisk returns the first directory on a full disk, or "".
func FullDisk(dirs ...string) string {
	for _, dir := range dirs {
		var free uint64
		path, err := windows.UTF16PtrFromString(dir)
		if err == nil && windows.GetDiskFreeSpaceEx(path, &free, nil, nil) == nil && free < minBytes {
			return dir
		}
	}
	return ""
}
