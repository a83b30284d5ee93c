// Package backlogs keeps copies of backlogs on the host: a backlog is in the worktree, where
// an agent can remove it.
package backlogs

import (
	"bytes"
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

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/scopes"
)

const (
	// copiesMax is how many copies of a backlog are kept.
	copiesMax = 5
	// copyMax bounds a copy, in bytes: an agent can write the original.
	copyMax = 64 << 20
	// copyStamp is the name of a copy.
	copyStamp = "20060102-150405.000"
)

// Backlog is the backlog of a worktree.
type Backlog struct {
	Host host.Host
	// Sandbox is the name of the worktree's sandbox.
	Sandbox string
	// Root is the worktree's; empty if the backlog is in a clone in the sandbox.
	Root string

	afterStep func(name string) error // of a move; nil but in tests
}

// Copy is a copy of a backlog.
type Copy struct {
	Name  string
	Taken time.Time
	// Counts are the numbers of tasks by their status.
	Counts map[string]int

	path string
}

// Find returns the backlog of the current scope or of a worktree.
func Find(ctx context.Context, h host.Host, w *host.Worktree) (Backlog, gitrepo.Worktree, error) {
	h, err := h.Into(ctx, w)
	if err != nil {
		return Backlog{}, gitrepo.Worktree{}, err
	}
	wt, err := gitrepo.Detect(ctx, h.Dir, h.Getenv)
	if err != nil {
		return Backlog{}, wt, err
	}
	name, err := h.SandboxName(wt)
	return Backlog{Host: h, Sandbox: name, Root: wt.Root}, wt, err
}

// OpenCopy opens a copy for [ImportCommand]; the newest one without a name. It is an error
// if a loop uses the backlog.
func OpenCopy(ctx context.Context, h host.Host, w *host.Worktree, name string) (*os.File, error) {
	b, wt, err := Find(ctx, h, w)
	if err != nil {
		return nil, err
	}
	records, err := b.Host.RecordsIn(wt)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(records, func(n host.Record) bool { return n.Live && n.IsLoop() }) {
		return nil, hint.Wrap(errors.New("a loop is using this backlog"), `stop it with "docker ralph stop", then restore`)
	}
	copies, err := b.Copies()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(copies, func(c Copy) bool { return name == "" || c.Name == name })
	switch {
	case i >= 0:
		return copies[i].open()
	case name == "":
		return nil, fmt.Errorf("no copy of the backlog of %s: loops create them", wt.Scope.Branch)
	}
	return nil, hint.Wrap(fmt.Errorf("no copy %q of this backlog", name), `list the copies with "docker ralph task restore --list"`)
}

func (c Copy) open() (*os.File, error) {
	content, err := os.Open(c.path)
	if err != nil {
		return nil, fmt.Errorf("reading a copy of the backlog: %w", err)
	}
	return content, nil
}

// dir is the directory of the copies.
func (b Backlog) dir() string { return scopes.Path(b.Host.StateDir, b.Sandbox, "backlogs") }

// Copies lists the copies, the newest first.
func (b Backlog) Copies() ([]Copy, error) {
	entries, err := os.ReadDir(b.dir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing copies of the backlog: %w", err)
	}
	var all []Copy
	for _, e := range slices.Backward(entries) { // names begin with the time
		name, found := strings.CutSuffix(e.Name(), ".json")
		taken, err := time.Parse(copyStamp, name)
		if !found || err != nil {
			continue
		}
		c := Copy{Name: name, Taken: taken, path: filepath.Join(b.dir(), e.Name())}
		content, err := os.ReadFile(c.path)
		if err != nil {
			return nil, fmt.Errorf("reading a copy of the backlog: %w", err)
		}
		if c.Counts, err = countTasks(content); err == nil {
			all = append(all, c)
		}
	}
	return all, nil
}

var errNoTasks = errors.New("it has no tasks")

// countTasks counts the tasks of a copy by their status. Without tasks it is not a copy.
func countTasks(content []byte) (map[string]int, error) {
	var c struct {
		Tasks []struct{ ID, Slug, Status string }
	}
	if err := json.Unmarshal(content, &c); err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, t := range c.Tasks {
		if t.ID == "" || t.Slug == "" {
			return nil, errors.New("a task has no id")
		}
		counts[t.Status]++
	}
	if len(counts) == 0 {
		return nil, errNoTasks
	}
	return counts, nil
}

// save writes a copy, unless the newest one is the same, and removes the oldest. It replaces
// the copy at a path, if that is not empty, and returns the new path.
func (b Backlog) save(content []byte, now time.Time, replaced string) (path string, err error) {
	all, err := b.Copies()
	if err != nil {
		return replaced, err
	}
	if len(all) > 0 {
		if newest, err := os.ReadFile(all[0].path); err == nil && bytes.Equal(newest, content) {
			return replaced, nil
		}
	}
	path = filepath.Join(b.dir(), now.UTC().Format(copyStamp)+".json")
	if err = os.MkdirAll(b.dir(), 0o700); err == nil {
		err = atomicwriter.WriteFile(path, content, 0o600)
	}
	if err != nil {
		return replaced, fmt.Errorf("copying the backlog: %w", err)
	}
	all = slices.DeleteFunc(all, func(c Copy) bool { return c.path == replaced && os.Remove(replaced) == nil })
	for _, old := range all[min(len(all), copiesMax-1):] {
		_ = os.Remove(old.path) // the next copy tries again
	}
	return path, nil
}

// database is the path of a file of the task database.
func (b Backlog) database(name string) string { return filepath.Join(b.Root, ".ralph", name) }

func (b Backlog) missing() bool {
	if b.Root == "" {
		return false
	}
	_, err := os.Lstat(b.database("tasks.db"))
	return errors.Is(err, fs.ErrNotExist)
}

// Check reports, before a command, a missing backlog of which there are copies. It is an
// error for a build.
func (b Backlog) Check(command string, args []string) error {
	if !host.IsLoop(command) && command != host.TaskCommand || Imports(command, args) || !b.missing() {
		return nil
	}
	copies, err := b.Copies()
	if err != nil || len(copies) == 0 {
		return err
	}
	err = lostError("there is no " + b.database("tasks.db"))
	if command == host.BuildCommand {
		return err
	}
	b.Host.Warn(err)
	return nil
}

// lostError is the error for a backlog of which there are copies.
func lostError(why string) error {
	return hint.Wrap(errors.New("the backlog is gone: "+why), `restore a copy with "docker ralph task restore"`)
}

// checkTasks returns an error for a build whose backlog is empty, if there are copies.
func (b Backlog) checkTasks(command string, copied error) error {
	if !errors.Is(copied, errNoTasks) || command != host.BuildCommand {
		return nil
	}
	copies, err := b.Copies()
	if err != nil || len(copies) == 0 {
		return err
	}
	return lostError("its database has no tasks")
}

// ImportCommand is the hidden task command that replaces the backlog by a copy.
const ImportCommand = "_import"

// Imports reports whether a command replaces the backlog by a copy.
func Imports(command string, args []string) bool {
	return command == host.TaskCommand && len(args) > 0 && args[0] == ImportCommand
}
