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

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// note is what a dispatch leaves on the host while it runs. A live one holds a
// lock on it. One that was killed does not, but what it started may go on in
// the sandbox, where nobody sees it.
type note struct {
	ID      string    `json:"id"`
	Command []string  `json:"command"`
	Since   time.Time `json:"since"`
	// Scope and Root are those of its sandbox: a name does not tell which they are.
	Scope gitrepo.Scope `json:"scope"`
	Root  string        `json:"root"`
	// Detached says that the dispatch has left its terminal; Log is where its
	// output goes then, if anywhere.
	Detached bool   `json:"detached,omitempty"`
	Log      string `json:"log,omitempty"`

	live    bool   // somebody holds it
	sandbox string // where it runs
}

func (h Host) noteDir(name string) string { return filepath.Join(h.StateDir, "dispatches", name) }

// heldNote is the note of a dispatch that lives.
type heldNote struct {
	note
	path string
	lock *flock.Flock
}

// note writes the note of a process.
func (h Host) note(sb lifecycle.Sandbox, p lifecycle.Process) (*heldNote, error) {
	dir := h.noteDir(sb.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("noting the dispatch: %w", err)
	}
	n := &heldNote{note: note{ID: p.ID, Command: p.Args, Since: time.Now().UTC(), Scope: sb.Scope, Root: sb.Root}, path: filepath.Join(dir, p.ID)}
	n.lock = flock.New(n.path, flock.SetPermissions(0o600))
	if err := n.lock.Lock(); err != nil {
		return nil, fmt.Errorf("noting the dispatch: %w", err)
	}
	if err := n.write(); err != nil {
		return nil, errors.Join(err, n.lock.Close())
	}
	return n, nil
}

func (n *heldNote) write() error {
	content, err := json.Marshal(n.note)
	if err == nil {
		err = os.WriteFile(n.path, append(content, '\n'), 0o600) // in place: the lock is on this file
	}
	if err != nil {
		return fmt.Errorf("noting the dispatch: %w", err)
	}
	return nil
}

// detach notes that the dispatch has left its terminal.
func (n *heldNote) detach(log string) error {
	if n == nil {
		return nil
	}
	n.Detached, n.Log = true, log
	return n.write()
}

// done is to be called with the result of the process: the note goes, unless the
// process does not.
func (n *heldNote) done(err error) {
	if err == nil || errors.Is(err, lifecycle.ErrNotPrepared) {
		_ = os.Remove(n.path) // or else it is found to be over, later
	}
	_ = n.lock.Close()
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
		h.report(fmt.Sprintf("Warning: %q still runs in the sandbox %s without a terminal, since %s.%s Stop it with \"docker ralph stop %s\"",
			strings.Join(n.Command, " "), sb.Name, sinceWhen(n.Since), n.takeBack(), sb.Name))
	}
	return nil
}

// tellBeside tells of loops in a sandbox that have left their terminals. Nobody
// has to be asked: they are watched by processes of ours.
func (h Host) tellBeside(wt gitrepo.Worktree) {
	all, err := h.notesIn(wt)
	if err != nil {
		return // those that nobody watches are looked for with more care
	}
	for _, n := range all {
		if n.live && n.Detached {
			h.report(fmt.Sprintf("Note: %q runs in the sandbox %s without a terminal, since %s.%s",
				strings.Join(n.Command, " "), n.sandbox, sinceWhen(n.Since), n.takeBack()))
		}
	}
}

func sinceWhen(t time.Time) string {
	return fmt.Sprintf("%s (%s ago)", t.Local().Format("15:04"), units.HumanDuration(time.Since(t)))
}

// isLoop says whether it is a loop, which can be followed and taken back.
func (n note) isLoop() bool {
	return len(n.Command) > 1 && n.Command[0] == "ralph" && IsLoop(n.Command[1])
}

func (n note) takeBack() string {
	if !n.isLoop() {
		return ""
	}
	return ` Follow it with "docker ralph logs -f", or take it back with "docker ralph attach".`
}

// leftNotes returns the notes that nobody holds.
func (h Host) leftNotes(name string) ([]note, error) {
	all, err := h.notes(name)
	return slices.DeleteFunc(all, func(n note) bool { return n.live }), err
}

// notes returns all notes of a sandbox, and whether somebody holds them.
func (h Host) notes(name string) ([]note, error) {
	files, err := os.ReadDir(h.noteDir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []note
	for _, f := range files {
		if n, ok := readNote(filepath.Join(h.noteDir(name), f.Name())); ok {
			all = append(all, n)
		}
	}
	return all, nil
}

// notesIn returns the notes of the sandboxes of a work tree's scope.
func (h Host) notesIn(wt gitrepo.Worktree) ([]note, error) {
	name, err := h.sandboxName(wt)
	if err != nil {
		return nil, err
	}
	all, err := h.notesOf(name)
	return slices.DeleteFunc(all, func(n note) bool { return n.Scope != wt.Scope || n.Root != wt.Root }), err
}

// notesOf returns the notes of a sandbox of this name, and of those that can have
// been made for one dispatch of its scope: the name of another branch can look so.
func (h Host) notesOf(name string) ([]note, error) {
	dirs, err := os.ReadDir(h.noteDir(""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []note
	for _, dir := range dirs {
		if dir.Name() != name && !isEphemeralOf(dir.Name(), name) {
			continue
		}
		found, err := h.notes(dir.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// readNote reads a note. One that has nothing to say goes, if nobody holds it.
func readNote(path string) (n note, ok bool) {
	lock := flock.New(path)
	free, err := lock.TryRLock()
	if err != nil {
		return note{}, false // its dispatch has just ended
	}
	defer func() { _ = lock.Close() }()
	for range 10 { // it may be written right now
		content, err := os.ReadFile(path)
		if err == nil && json.Unmarshal(content, &n) == nil && n.ID == filepath.Base(path) {
			n.live, n.sandbox = !free, filepath.Base(filepath.Dir(path))
			return n, true
		}
		if free || err != nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if free {
		_ = os.Remove(path) // its dispatch was killed before anything began
	}
	return note{}, false
}
