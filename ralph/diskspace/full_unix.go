//go:build linux || darwin

package diskspace

import (
	"os"

	"golang.org/x/sys/unix"
)

func full(folder string) bool {
	var s unix.Statfs_t
	if unix.Statfs(folder, &s) != nil || s.Blocks == 0 { // without a size there is no bound
		return false
	}
	blocks := s.Bavail
	if os.Geteuid() == 0 {
		blocks = s.Bfree // some are reserved for root
	}
	return blocks < reserve/uint64(s.Bsize) || s.Files > 0 && s.Ffree < inodeReserve
}
