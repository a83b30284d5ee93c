// Package diskspace finds file systems that have no space left.
package diskspace

// reserve is the space, in bytes, that git and SQLite need for one change. With less
// a file system counts as full.
const reserve = 1 << 20

// inodeReserve is the same in files.
const inodeReserve = 16

// Full returns the first of the folders whose file system has no space left, or "".
// Folders of which nothing is known are left out.
func Full(folders ...string) string {
	for _, folder := range folders {
		if folder != "" && full(folder) {
			return folder
		}
	}
	return ""
}
