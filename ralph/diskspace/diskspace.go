// Package diskspace detects full file systems.
package diskspace

// A file system with less is full: git and SQLite need it for one change.
const (
	minBytes  = 1 << 20
	minInodes = 16
)

// Full returns the first directory on a full file system, or "".
func Full(dirs ...string) string {
	for _, dir := range dirs {
		if dir != "" && full(dir) {
			return dir
		}
	}
	return ""
}
