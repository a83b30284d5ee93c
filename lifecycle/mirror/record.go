package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/docker-ralph/docker-ralph/scopes"
)

// record is what a worktree has of a sandbox's logs.
type record struct {
	// Sandbox is the ID of the sandbox. The loops of an earlier one are the worktree's.
	Sandbox string `json:"sandbox"`
	// Loops are those that were copied.
	Loops map[string]bool `json:"loops,omitempty"`
}

func (r record) clone() record {
	r.Loops = maps.Clone(r.Loops)
	return r
}

func (r record) equal(other record) bool {
	return r.Sandbox == other.Sandbox && maps.Equal(r.Loops, other.Loops)
}

var copied = scopes.Section[record]("mirror")

// readRecord reads the record, which is empty for a new sandbox.
func (l *logs) readRecord() record {
	r, found, err := copied.Read(l.host.StateDir, l.sb.Name)
	if err != nil || !found || r.Sandbox != l.sb.ID {
		r = record{Sandbox: l.sb.ID}
	}
	if r.Loops == nil {
		r.Loops = map[string]bool{}
	}
	return r
}

// save saves the record if it has changed. Without it, fewer loops are pruned.
func (r *receiver) save() {
	if r.record.equal(r.saved) {
		return
	}
	if err := copied.Write(r.host.StateDir, r.sb.Name, r.record); err != nil {
		r.host.ReportDebug(fmt.Sprintf("recording the copied logs of %s: %v", r.sb.Name, err))
		return
	}
	r.saved = r.record.clone()
}

func (l *logs) lockPath() string { return filepath.Join(l.host.LockDir(), l.sb.Name+".mirror") }

// tryLock takes the lock of processes that write the mirrored logs; unlock is nil if it is held.
func (l *logs) tryLock() (unlock func(), err error) {
	lock, err := l.host.LockFile(filepath.Base(l.lockPath()))
	if err != nil {
		return nil, err
	}
	free, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	if !free {
		return nil, nil
	}
	return func() { _ = lock.Close() }, nil
}

// lock waits for the lock. unlock is nil if another process follows the logs, or does not
// release it.
func (l *logs) lock(ctx context.Context) (unlock func(), err error) {
	for end := time.Now().Add(lockTimeout); ; {
		unlock, err := l.tryLock()
		if unlock != nil || err != nil {
			return unlock, err
		}
		if time.Since(l.touched()) < fresh || time.Now().After(end) {
			return nil, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// touched returns when the logs were last up to date in a process that follows them.
func (l *logs) touched() time.Time {
	info, err := os.Stat(l.lockPath())
	if errors.Is(err, fs.ErrNotExist) || err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
