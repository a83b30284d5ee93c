package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/moby/sys/atomicwriter"
)

// marker says what ralph a sandbox has. It is written when all is done.
type marker struct {
	// Version is that of the program that installed.
	Version string `json:"version"`
	// Hash is the SHA-256 of the program that installed, in hex digits.
	Hash string `json:"hash"`
	// Path is that of the program to run.
	Path string `json:"path"`
}

func markerPath(home string) string { return filepath.Join(home, ".ralph", ".bootstrapped") }

func readMarker(home string) (marker, error) {
	content, err := os.ReadFile(markerPath(home))
	if err != nil {
		return marker{}, err
	}
	return parseMarker(content)
}

func parseMarker(content []byte) (marker, error) {
	var m marker
	if err := json.Unmarshal(content, &m); err != nil {
		return marker{}, err
	}
	return m, nil
}

func (m marker) write(home string) error {
	content, err := json.Marshal(m)
	if err == nil {
		err = atomicwriter.WriteFile(markerPath(home), append(content, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting that ralph is installed: %w", err)
	}
	return nil
}

// removeMarker removes the marker, and what killed writers of it have left.
func removeMarker(home string) error {
	dir, name := filepath.Split(markerPath(home))
	left, err := filepath.Glob(filepath.Join(dir, ".tmp-"+name+"*"))
	if err != nil {
		left = nil // a home with signs of a pattern in its name
	}
	for _, path := range append(left, filepath.Join(dir, name)) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("installing ralph: %w", err)
		}
	}
	return nil
}
