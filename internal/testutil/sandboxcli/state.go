package sandboxcli

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Status values of both CLIs' lists (DOC S13; MEAS v0.38, v0.45.1).
const (
	running = "running"
	stopped = "stopped"
)

// record is what is known about a sandbox.
type record struct {
	Name       string   `json:"name"`
	ID         string   `json:"id"`
	Agent      string   `json:"agent"`
	Status     string   `json:"status"`
	Workspaces []string `json:"workspaces"` // as given, with ":ro"
	Env        []string `json:"env,omitempty"`
	Template   string   `json:"template"`
	Container  string   `json:"container,omitempty"`
	CPUs       int      `json:"cpus,omitempty"`
	Memory     int64    `json:"memory,omitempty"` // bytes
	Network    []string `json:"network,omitempty"`
	// Pinned sandboxes do not stop when they are idle.
	Pinned    bool      `json:"pinned,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	LastUsed  time.Time `json:"last_used_at"`
	// IdleSince is when the sandbox was started or a session ended in order.
	IdleSince time.Time `json:"idle_since"`
}

// workspace splits a workspace into its path and whether it is read-only.
func workspace(given string) (path string, readOnly bool) {
	return strings.CutSuffix(given, ":ro")
}

// primary is the working directory of commands, or "".
func (r record) primary() string {
	if len(r.Workspaces) == 0 {
		return ""
	}
	path, _ := workspace(r.Workspaces[0])
	return path
}

// store keeps the sandboxes of one CLI in a directory.
type store struct{ dir string }

func openStore(dir string) (store, error) {
	for _, sub := range []string{"sandboxes", "sessions", "locks", "homes"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return store{}, fmt.Errorf("setting up the fake's state: %w", err)
		}
	}
	return store{dir}, nil
}

func (s store) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

// lock locks the state that sandboxes share.
func (s store) lock() (unlock func(), err error) { return lockFile(s.path("lock")) }

// lockSandbox locks a sandbox against starting, stopping and removing.
func (s store) lockSandbox(name string) (unlock func(), err error) {
	return lockFile(s.path("locks", name))
}

// load returns the sandbox of that name, or false.
func (s store) load(name string) (record, bool, error) {
	var r record
	ok, err := s.readJSON(&r, "sandboxes", name+".json")
	return r, ok, err
}

func (s store) save(r record) error { return s.writeJSON(r, "sandboxes", r.Name+".json") }

// list returns all sandboxes, sorted by name.
func (s store) list() ([]record, error) {
	entries, err := os.ReadDir(s.path("sandboxes"))
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	var all []record
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue // on its way to being written
		}
		r, ok, err := s.load(name)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, r)
		}
	}
	return all, nil
}

// forget removes all traces of a sandbox.
func (s store) forget(r record) error {
	if err := os.Remove(s.path("sandboxes", r.Name+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing sandbox %q: %w", r.Name, err)
	}
	for _, sub := range []string{"homes", "sessions"} {
		if err := os.RemoveAll(s.path(sub, r.Name)); err != nil {
			return fmt.Errorf("removing sandbox %q: %w", r.Name, err)
		}
	}
	return nil
}

// readJSON reads a file of the state, and reports whether it exists.
func (s store) readJSON(v any, parts ...string) (bool, error) {
	content, err := os.ReadFile(s.path(parts...))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the fake's state: %w", err)
	}
	if err := json.Unmarshal(content, v); err != nil {
		return false, fmt.Errorf("reading the fake's state %s: %w", s.path(parts...), err)
	}
	return true, nil
}

// writeJSON replaces a file of the state atomically, without fsync.
func (s store) writeJSON(v any, parts ...string) error {
	content, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing the fake's state: %w", err)
	}
	path := s.path(parts...)
	temporary := path + "." + rand.Text()
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return fmt.Errorf("writing the fake's state: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("writing the fake's state: %w", err)
	}
	return nil
}

// session is a client that is connected to a sandbox. It holds a lock on a file, which
// also the end of a killed one releases.
type session struct {
	file *os.File
	path string
}

// Prefixes of session files. Only interactive ones keep the plugin's sandboxes
// from being stopped.
const (
	interactivePrefix = "tty-"
	otherPrefix       = "pipe-"
)

// beginSession opens a session, whose file has the command line.
func (s store) beginSession(name string, interactive bool, args []string) (session, error) {
	if err := os.MkdirAll(s.path("sessions", name), 0o755); err != nil {
		return session{}, fmt.Errorf("opening a session: %w", err)
	}
	prefix := otherPrefix
	if interactive {
		prefix = interactivePrefix
	}
	// It is renamed once it is locked: before, it would look like the session of a
	// dead client.
	path := s.path("sessions", name, prefix+rand.Text())
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return session{}, fmt.Errorf("opening a session: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return session{}, fmt.Errorf("opening a session: %w", err)
	}
	if _, err := f.WriteString(strings.Join(args, " ")); err != nil {
		return session{}, fmt.Errorf("opening a session: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return session{}, fmt.Errorf("opening a session: %w", err)
	}
	return session{f, path}, nil
}

// endSession ends a session and records the time.
func (s store) endSession(name string, c session) error {
	unlock, err := s.lockSandbox(name)
	if err != nil {
		return err
	}
	defer unlock()
	_ = os.Remove(c.path)
	_ = c.file.Close()
	r, ok, err := s.load(name)
	if err != nil || !ok {
		return err
	}
	r.LastUsed = time.Now()
	r.IdleSince = r.LastUsed
	return s.save(r)
}

// sessions counts the clients that are connected to a sandbox, and cleans up
// after those that are gone.
func (s store) sessions(name string) (all, interactive int, err error) {
	entries, err := os.ReadDir(s.path("sessions", name))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("counting sessions: %w", err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".new") {
			continue
		}
		path := s.path("sessions", name, e.Name())
		f, err := os.Open(path)
		if err != nil {
			continue // it ended just now
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
			_ = os.Remove(path)
		} else {
			all++
			if strings.HasPrefix(e.Name(), interactivePrefix) {
				interactive++
			}
		}
		_ = f.Close()
	}
	return all, interactive, nil
}

// lockFile waits for a lock on a file. The file stays.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking the fake's state: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("locking the fake's state: %w", err)
	}
	return func() { _ = f.Close() }, nil
}
