//go:build linux || darwin

package diskspace

import (
	"os"

	"golang.org/x/sys/unix"
)

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
