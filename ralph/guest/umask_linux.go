package guest

import "golang.org/x/sys/unix"

// usualUmask is the one that a container's first process has on every engine.
const usualUmask = 0o022

// CloseUmask gives this process, and all that it starts, a umask where the
// engine has left none: since 29.6 Docker's daemon has none itself, and what it
// executes in a container inherits that (https://github.com/moby/moby/pull/52892).
// Everybody on the host could write what the agent makes in the work tree. A
// umask that somebody has chosen stays.
func CloseUmask() {
	if old := unix.Umask(usualUmask); old != 0 {
		unix.Umask(old)
	}
}
