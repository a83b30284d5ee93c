package dispatch

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
	"time"

	"github.com/docker/go-units"
	"github.com/gofrs/flock"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// note is what a dispatch leaves on the host while it runs. A live one holds a
// lock on it. One that was killed does not, but what it started may go on in
// the sandbox, where nobody sees it.
type note struct {
	ID      string    `json:"id"`
	Command []string  `json:"command"`
	Since   time.Time `json:"since"`
}

func (h Host) noteDir(name string) string { return filepath.Join(h.StateDir, "dispatches", name) }

// note writes the note of a process. The function that it returns is to be
// called with the result of the process: the note goes, unless the process
// does not.
func (h Host) note(sb lifecycle.Sandbox, p lifecycle.Process) (done func(error), err error) {
	dir := h.noteDir(sb.Name)
	content, err := json.Marshal(note{ID: p.ID, Command: p.Args, Since: time.Now().UTC()})
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("noting the dispatch: %w", err)
	}
	path := filepath.Join(dir, p.ID)
	lock := flock.New(path, flock.SetPermissions(0o600))
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("noting the dispatch: %w", err)
	}
	if err := os.WriteFile(path, append(content, '\n'), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("noting the dispatch: %w", err), lock.Close())
	}
	return func(err error) {
		if err == nil || errors.Is(err, lifecycle.ErrNotPrepared) {
			_ = os.Remove(path) // or else it is found to be over, later
		}
		_ = lock.Close()
	}, nil
}

// nameOrphans tells the user of what runs in the sandbox without anybody who
// sees it. Without notes of such dispatches, nothing is asked.
func (h Host) nameOrphans(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox) {
	left, err := h.leftNotes(sb.Name)
	if err == nil && len(left) > 0 {
		err = h.reportOrphans(ctx, driver, sb, left)
	}
	if err != nil && ctx.Err() == nil {
		h.report(fmt.Sprintf("Warning: it cannot be told whether an earlier command still runs in %s: %v", sb.Name, err))
	}
}

func (h Host) reportOrphans(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox, left []note) error {
	running, err := driver.Dispatches(ctx, sb)
	if err != nil {
		return err
	}
	for _, n := range left {
		if !slices.ContainsFunc(running, func(d lifecycle.Dispatch) bool { return d.ID == n.ID }) {
			_ = os.Remove(filepath.Join(h.noteDir(sb.Name), n.ID))
			continue
		}
		h.report(fmt.Sprintf("Warning: %q still runs in the sandbox %s without a terminal, since %s (%s). Stop it, and all else there, with %q",
			strings.Join(n.Command, " "), sb.Name, n.Since.Local().Format("15:04"), units.HumanDuration(time.Since(n.Since))+" ago", driver.Manual(sb.Name).Stop))
	}
	return nil
}

// leftNotes returns the notes that nobody holds.
func (h Host) leftNotes(name string) ([]note, error) {
	files, err := os.ReadDir(h.noteDir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var left []note
	for _, f := range files {
		path := filepath.Join(h.noteDir(name), f.Name())
		lock := flock.New(path)
		free, err := lock.TryLock()
		if err != nil || !free {
			continue // its dispatch lives, or has just ended
		}
		content, err := os.ReadFile(path)
		var n note
		if err != nil || json.Unmarshal(content, &n) != nil || n.ID != f.Name() {
			_ = os.Remove(path) // its dispatch was killed before anything began
		} else {
			left = append(left, n)
		}
		_ = lock.Close()
	}
	return left, nil
}
