package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/atomicwriter"
)

// keepNotes is how long the note of a dispatch that has ended is kept.
const keepNotes = 7 * 24 * time.Hour

// note says that a dispatch began. It is there before its program is, so that
// whoever loses the connection to a sandbox can find out what became of it.
type note struct {
	ID      string    `json:"id"`
	Command []string  `json:"command"`
	Since   time.Time `json:"since"`
	// The process, which the program of the dispatch takes over. It is the same
	// one only if it started at the same time after the same boot.
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
}

// validID reports whether id can be a file name and nothing else.
func validID(id string) bool {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return id != "" && len(id) <= 64 && strings.Trim(id, letters) == ""
}

func notesDir(home string) string { return filepath.Join(home, ".ralph", "dispatches") }

// homeDir is the home of the user, also where nobody has set the variable.
func homeDir() (string, error) {
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		return home, nil
	}
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil {
		return "", fmt.Errorf("finding the home directory: %w. Set HOME", err)
	}
	return u.HomeDir, nil
}

// write notes that the calling process begins the dispatch.
func (n note) write(home string) error {
	stat, err := os.ReadFile(filepath.Join(procDir, "self", "stat"))
	if err == nil {
		_, n.Start, err = parseStat(stat)
	}
	if err != nil {
		return fmt.Errorf("noting dispatch %s: %w", n.ID, err)
	}
	n.PID, n.Boot = os.Getpid(), bootID(procDir)
	content, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("noting dispatch %s: %w", n.ID, err)
	}
	dir := notesDir(home)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("noting dispatch %s: %w", n.ID, err)
	}
	if err := atomicwriter.WriteFile(filepath.Join(dir, n.ID), append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("noting dispatch %s: %w", n.ID, err)
	}
	return nil
}

// parseNote reads the note of the dispatch id.
func parseNote(id string, content []byte) (note, error) {
	var n note
	if err := json.Unmarshal(content, &n); err != nil {
		return note{}, err
	}
	if n.ID != id || !validID(id) {
		return note{}, errors.New("not the note of this dispatch")
	}
	return n, nil
}

// readNotes returns the notes of all dispatches, by no order. A file that is no
// note is nobody's.
func readNotes(home string) ([]note, error) {
	dir := notesDir(home)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the notes of dispatches: %w", err)
	}
	var all []note
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // pruned meanwhile
		}
		if n, err := parseNote(e.Name(), content); err == nil {
			all = append(all, n)
		}
	}
	return all, nil
}

// knownNotes returns what notes there are, for those who can do without: a
// container sandbox has none, and perhaps no home.
func knownNotes() []note {
	home, err := homeDir()
	if err != nil {
		return nil
	}
	notes, err := readNotes(home)
	if err != nil {
		return nil
	}
	return notes
}

// pruneNotes removes what is older than [keepNotes] and of no living dispatch,
// also what killed writers left. Nothing depends on it, so errors are left to
// the next time.
func pruneNotes(home string, now time.Time) {
	dir := notesDir(home)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	var old []string
	for _, e := range entries {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > keepNotes {
			old = append(old, e.Name())
		}
	}
	if len(old) == 0 {
		return
	}
	notes, err := readNotes(home)
	if err != nil {
		return
	}
	all, err := dispatchProcesses(procDir, notes)
	if err != nil {
		return
	}
	running := map[string]bool{}
	for _, p := range all {
		running[p.dispatch] = true
	}
	for _, name := range old {
		if !running[name] {
			_ = os.Remove(filepath.Join(dir, name))
		}
	}
}
