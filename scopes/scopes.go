// Package scopes is the one place for what the host keeps of a scope: the folder scopes/NAME in the plugin's
// state directory, NAME being that of the scope's sandbox. Its record, scope.json, has a section for each
// package that keeps something small; other files and folders belong to the package that names them.
package scopes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/hint"
)

// Dir is the folder of a scope.
func Dir(stateDir, name string) string { return filepath.Join(stateDir, "scopes", name) }

// Path is a file or folder of a scope.
func Path(stateDir, name string, elem ...string) string {
	return filepath.Join(append([]string{Dir(stateDir, name)}, elem...)...)
}

// Names lists the scopes that have a folder, in alphabetical order.
func Names(stateDir string) ([]string, error) {
	entries, err := os.ReadDir(Dir(stateDir, ""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the scopes: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// LockFile is the name of the file in the lock directory that is locked while the record of a scope changes.
func LockFile(name string) string { return name + ".scope" }

// A Section is the name of a part of the record, with a value of type T.
type Section[T any] string

// Read reads the section of a scope. It is an error if the record cannot be read, or if the section does not
// fit; a missing one is not found.
func (s Section[T]) Read(stateDir, name string) (value T, found bool, err error) {
	sections, err := read(stateDir, name)
	content, found := sections[string(s)]
	if err != nil || !found {
		return value, false, err
	}
	if err := json.Unmarshal(content, &value); err != nil {
		return *new(T), false, damaged(stateDir, name, err)
	}
	return value, true, nil
}

// Write replaces the section of a scope.
func (s Section[T]) Write(stateDir, name string, value T) error {
	return s.Update(stateDir, name, func(T, bool) (T, error) { return value, nil })
}

// Update replaces the section of a scope by what update makes of it, while no other process changes the record.
// Nothing is written if update returns an error.
func (s Section[T]) Update(stateDir, name string, update func(value T, found bool) (T, error)) error {
	return change(stateDir, name, func(sections map[string]json.RawMessage) error {
		var value T
		content, found := sections[string(s)]
		if found && json.Unmarshal(content, &value) != nil {
			value, found = *new(T), false
		}
		value, err := update(value, found)
		if err != nil {
			return err
		}
		sections[string(s)], err = json.Marshal(value)
		return err
	})
}

// Remove removes the section of a scope, which may be missing.
func (s Section[T]) Remove(stateDir, name string) error {
	if sections, err := read(stateDir, name); err == nil && sections[string(s)] == nil {
		return nil
	}
	return change(stateDir, name, func(sections map[string]json.RawMessage) error {
		delete(sections, string(s))
		return nil
	})
}

// All returns the section of every scope that has one, by the scope's name. Damaged ones count as missing.
func (s Section[T]) All(stateDir string) (map[string]T, error) {
	names, err := Names(stateDir)
	if err != nil {
		return nil, err
	}
	all := map[string]T{}
	for _, name := range names {
		if value, found, err := s.Read(stateDir, name); err == nil && found {
			all[name] = value
		}
	}
	return all, nil
}

func recordPath(stateDir, name string) string { return Path(stateDir, name, "scope.json") }

func read(stateDir, name string) (sections map[string]json.RawMessage, err error) {
	content, err := os.ReadFile(recordPath(stateDir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &sections)
	}
	if err != nil {
		return nil, damaged(stateDir, name, err)
	}
	return sections, nil
}

func damaged(stateDir, name string, err error) error {
	return hint.Wrap(fmt.Errorf("reading the record of sandbox %s: %w", name, err), "repair or remove %s", recordPath(stateDir, name))
}

// change changes the sections under the lock of the record. Other processes see all of the change or nothing.
func change(stateDir, name string, change func(sections map[string]json.RawMessage) error) error {
	unlock, err := lock(stateDir, name)
	if err != nil {
		return err
	}
	defer unlock()

	sections, err := read(stateDir, name)
	if err != nil {
		return err
	}
	if sections == nil {
		sections = map[string]json.RawMessage{}
	}
	before, err := encode(sections)
	if err != nil {
		return err
	}
	if err := change(sections); err != nil {
		return err
	}
	after, err := encode(sections)
	if err != nil || bytes.Equal(before, after) {
		return err
	}

	if err := os.MkdirAll(Dir(stateDir, name), 0o700); err != nil {
		return err
	}
	return atomicwriter.WriteFile(recordPath(stateDir, name), after, 0o600)
}

func encode(sections map[string]json.RawMessage) ([]byte, error) {
	content, err := json.MarshalIndent(sections, "", "  ")
	return append(content, '\n'), err
}

func lock(stateDir, name string) (unlock func(), err error) {
	return lockFile(stateDir, LockFile(name))
}

// lockFile locks a file of the lock directory.
func lockFile(stateDir, file string) (unlock func(), err error) {
	path := filepath.Join(stateDir, "locks", file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("creating the lock directory: %w", err)
	}
	l := flock.New(path, flock.SetPermissions(0o600))
	if err := l.Lock(); err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { _ = l.Close() }, nil
}
