package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/go-units"
	"github.com/gofrs/flock"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// Record is the run record of a command. A running command holds a lock on it. Without
// the lock, what a killed command started may still run in the sandbox.
type Record struct {
	ID      string    `json:"id"`
	Command []string  `json:"command"`
	Since   time.Time `json:"since"`
	// Scope and Root are the sandbox's, which its name does not identify.
	Scope gitrepo.Scope `json:"scope"`
	Root  string        `json:"root"`
	// Detached says that the command has released its terminal; Log is the file with its
	// output then; empty for none.
	Detached bool   `json:"detached,omitempty"`
	Log      string `json:"log,omitempty"`
	// Token marks the requests of the command itself in its session, and PID is its process in the sandbox; 0 if unknown.
	Token string `json:"token,omitempty"`
	PID   uint32 `json:"pid,omitempty"`
	// Stopped says that the user has stopped the sandbox.
	Stopped bool `json:"stopped,omitempty"`

	Live    bool   `json:"-"` // a process holds its lock
	Sandbox string `json:"-"` // where it runs
}

// RecordDir is the directory with the records of commands in a sandbox.
func (h Host) RecordDir(name string) string { return scopes.Path(h.StateDir, name, "dispatches") }

// HeldRecord is the record of a running command.
type HeldRecord struct {
	Record
	path string
	Lock *flock.Flock
	mu   sync.Mutex
}

// NewRecord writes the record of a command that is about to run.
func (h Host) NewRecord(r Record) (*HeldRecord, error) {
	dir := h.RecordDir(r.Sandbox)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("writing the run record: %w", err)
	}
	r.Since = time.Now().UTC()
	n := &HeldRecord{Record: r, path: filepath.Join(dir, r.ID)}
	n.Lock = flock.New(n.path, flock.SetPermissions(0o600))
	if err := n.Lock.Lock(); err != nil {
		return nil, fmt.Errorf("writing the run record: %w", err)
	}
	if err := n.write(n.path); err != nil {
		return nil, errors.Join(err, n.Lock.Close())
	}
	return n, nil
}

// write writes the record in place: its lock is on the file. The file of a command that has
// just ended is not created again.
func (n Record) write(path string) error {
	content, err := json.Marshal(n)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = f.Write(append(content, '\n'))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("writing the run record: %w", err)
	}
	return nil
}

// Detach records that the command has released its terminal.
func (n *HeldRecord) Detach(log string) error {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Detached, n.Log = true, log
	return n.write(n.path)
}

// Began records the process of the command in the sandbox.
func (n *HeldRecord) Began(pid uint32) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.PID = pid
	return n.write(n.path)
}

// Done removes the record, unless an error says that the command's process may still
// run.
func (n *HeldRecord) Done(err error) {
	if err == nil || errors.Is(err, lifecycle.ErrNotPrepared) {
		_ = os.Remove(n.path) // otherwise [Host.ReportOrphans] does
	}
	_ = n.Lock.Close()
}

// ReportOrphans reports commands without a client that still run in the sandbox, and returns them.
// Without a record of one, the sandbox is not asked.
func (h Host) ReportOrphans(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox) (left []Record) {
	all, err := h.RecordsFor(sb.Name)
	orphans := slices.DeleteFunc(all, func(n Record) bool { return n.Live })
	var running []lifecycle.Dispatch
	if err == nil && len(orphans) > 0 {
		running, err = driver.Dispatches(ctx, sb)
	}
	if err != nil {
		if ctx.Err() == nil {
			h.Report(fmt.Sprintf("Warning: unknown whether an earlier command is still running in %s: %v", sb.Name, err))
		}
		return nil
	}
	for _, n := range orphans {
		if slices.ContainsFunc(running, func(d lifecycle.Dispatch) bool { return d.ID == n.ID }) {
			h.reportRunning(n, "Warning: %q is still running")
			left = append(left, n)
		} else {
			_ = os.Remove(filepath.Join(h.RecordDir(sb.Name), n.ID))
		}
	}
	return left
}

// ReportBackgroundLoops reports background loops in the sandboxes of a worktree.
func (h Host) ReportBackgroundLoops(wt gitrepo.Worktree) {
	all, err := h.RecordsIn(wt)
	if err != nil {
		return // [Host.ReportOrphans] reports it
	}
	for _, n := range all {
		if n.Live && n.Detached {
			h.reportRunning(n, "Note: %q is running")
		}
	}
}

func (h Host) reportRunning(n Record, what string) {
	follow := ""
	if n.IsLoop() {
		follow = fmt.Sprintf("follow it with %q, attach with %q, ", "docker ralph logs -f "+n.Sandbox, "docker ralph attach "+n.Sandbox)
	}
	h.Report(fmt.Sprintf(what+" in the background in sandbox %s, since %s (%s ago)\nHint: %sstop it with \"docker ralph stop %s\"",
		strings.Join(n.Command, " "), n.Sandbox, n.Since.Local().Format("15:04"), units.HumanDuration(time.Since(n.Since)), follow, n.Sandbox))
}

// IsLoop reports whether the command is a loop, which can be followed and attached to.
func (n Record) IsLoop() bool {
	return len(n.Command) > 1 && n.Command[0] == "ralph" && IsLoop(n.Command[1])
}

// LiveLoops returns the loops of a sandbox whose commands run on this machine.
func (h Host) LiveLoops(sandbox string) ([]Record, error) {
	all, err := h.RecordsFor(sandbox)
	return slices.DeleteFunc(all, func(n Record) bool { return !n.Live || !n.IsLoop() }), err
}

// RecordsFor returns the records of one sandbox.
func (h Host) RecordsFor(name string) ([]Record, error) {
	files, err := os.ReadDir(h.RecordDir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Record
	for _, f := range files {
		if n, ok := ReadRecord(filepath.Join(h.RecordDir(name), f.Name())); ok {
			all = append(all, n)
		}
	}
	return all, nil
}

// RecordsIn returns the records of the sandboxes of a worktree.
func (h Host) RecordsIn(wt gitrepo.Worktree) ([]Record, error) {
	name, err := h.SandboxName(wt)
	if err != nil {
		return nil, err
	}
	all, err := h.RecordsOf(name)
	return slices.DeleteFunc(all, func(n Record) bool { return n.Scope != wt.Scope || n.Root != wt.Root }), err
}

// RecordsOf returns the records of a scope's sandbox, and of ephemeral ones that have the name
// for it. Names of other branches can look the same.
func (h Host) RecordsOf(name string) ([]Record, error) {
	names, err := scopes.Names(h.StateDir)
	if err != nil {
		return nil, err
	}
	var all []Record
	for _, one := range names {
		if one != name && !isEphemeralOf(one, name) {
			continue
		}
		found, err := h.RecordsFor(one)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// ReadRecord reads a record. A damaged one without a running command is removed.
func ReadRecord(path string) (n Record, ok bool) {
	lock := flock.New(path)
	free, err := lock.TryRLock()
	if err != nil {
		return Record{}, false // its command has just ended
	}
	defer func() { _ = lock.Close() }()
	for range 10 { // it may be written right now
		content, err := os.ReadFile(path)
		if err == nil && json.Unmarshal(content, &n) == nil && n.ID == filepath.Base(path) {
			n.Live, n.Sandbox = !free, filepath.Base(filepath.Dir(filepath.Dir(path)))
			return n, true
		}
		if free || err != nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if free {
		_ = os.Remove(path) // its command was killed before it ran
	}
	return Record{}, false
}

// RecordStop records for the running commands in a sandbox that the user stops it: their loops
// do not restart it.
func (h Host) RecordStop(name string) error {
	all, err := h.RecordsFor(name)
	for _, n := range all {
		if n.Live && !n.Stopped {
			n.Stopped = true
			err = errors.Join(err, n.write(filepath.Join(h.RecordDir(name), n.ID)))
		}
	}
	return err
}

// Stopped reports whether the user has stopped the sandbox of a running command.
func (h Host) Stopped(name, id string) bool {
	n, _ := ReadRecord(filepath.Join(h.RecordDir(name), id))
	return n.Stopped
}

// AskTimeout bounds listing the commands in a sandbox.
const AskTimeout = 10 * time.Second
