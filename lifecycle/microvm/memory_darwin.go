package microvm

import "golang.org/x/sys/unix"

// hostMemory returns the machine's memory in bytes.
func hostMemory() (int64, error) {
	bytes, err := unix.SysctlUint64("hw.memsize")
	return int64(bytes), err
}
