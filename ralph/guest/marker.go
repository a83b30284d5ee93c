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

// marker records the installed ralph. It is written last.
type marker struct {
	Version string `json:"version"`
	Hash    string `json:"hash"` // SHA-256 of the program, in hex
	Path    string `json:"path"` // of the program
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
		return fmt.Errorf("recording the installation: %w", err)
	}
	return nil
}

// removeMarker removes the marker, and temporary files of killed writers.
func removeMarker(home string) error {
	dir, name := filepath.Split(markerPath(home))
	stale, _ := filepath.Glob(filepath.Join(dir, ".tmp-"+name+"*"))
	for _, path := range append(stale, filepath.Join(dir, name)) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("installing ralph: %w", err)
		}
	}
	return nil
}
