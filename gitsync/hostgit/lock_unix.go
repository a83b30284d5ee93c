//go:build unix

package hostgit

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Lock waits for a lock, which is held as long as a process has the file open.
func Lock(ctx context.Context, path string) (held *os.File, release func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, nil, errors.Join(err, f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, nil, errors.Join(ctx.Err(), f.Close())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// inherit makes a process hold a lock too.
func inherit(cmd *exec.Cmd, lock *os.File) {
	if lock != nil {
		cmd.ExtraFiles = []*os.File{lock}
	}
}
