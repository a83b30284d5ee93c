//go:build unix

package gitsync

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// acquire waits for a lock. The file that it returns is the lock: whoever has
// it open holds it.
func acquire(ctx context.Context, path string) (held *os.File, release func(), err error) {
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

// inherit lets a process hold a lock that we hold. When we are killed, the lock
// stays until the process has ended too.
func inherit(cmd *exec.Cmd, lock *os.File) {
	if lock != nil {
		cmd.ExtraFiles = []*os.File{lock}
	}
}
