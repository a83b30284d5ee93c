//go:build unix

package sysinfo

import (
	"os"

	"golang.org/x/sys/unix"
)

// A file system with less is full: git and SQLite need it for one change.
const (
	minBytes  = 1 << 20
	minInodes = 16
)

// FullDisk returns the first directory on a full file system, or "".
func FullDisk(dirs ...string) string {
	for _, dir := range dirs {
		if dir != "" && full(dir) {
			return dir
		}
	}
	return ""
}

func full(dir string) bool {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil || s.Blocks == 0 { // unlimited
		return false
	}
	blocks := s.Bavail
	if os.Geteuid() == 0 {
		blocks = s.Bfree // includes the blocks reserved for root
	}
	return blocks < minBytes/uint64(s.Bsize) || s.Files > 0 && s.Ffree < minInodes
}

// SameDisk reports whether two paths are on the same file system.
func SameDisk(a, b string) bool {
	var x, y unix.Stat_t
	return unix.Stat(a, &x) == nil && unix.Stat(b, &y) == nil && x.Dev == y.Dev
}

// DiskSize returns the size of a directory's file system in bytes, or 0.
func DiskSize(dir string) uint64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0
	}
	return s.Blocks * uint64(s.Bsize)
}
