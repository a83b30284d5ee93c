package guest

import "golang.org/x/sys/unix"

// defaultUmask is the umask of a container's init process on every engine.
const defaultUmask = 0o022

// SetUmask sets a umask if the process has none: since 29.6 Docker's daemon passes its
// own empty umask to exec processes (https://github.com/moby/moby/pull/52892), and the
// agent's files would be world-writable. Any other umask is kept.
func SetUmask() {
	if old := unix.Umask(defaultUmask); old != 0 {
		unix.Umask(old)
	}
}
