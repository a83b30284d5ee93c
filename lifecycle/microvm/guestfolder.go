package microvm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
	"github.com/docker-ralph/docker-ralph/wire"
)

// guestFolder is the folder that every sandbox mounts read-only. It holds ralph,
// each version in a folder of its own, and nothing else: a newer version
// reaches sandboxes that exist without making them anew.
type guestFolder string

func (d *Driver) guestFolder() guestFolder { return guestFolder(filepath.Join(d.StateDir, "guest")) }

func (g guestFolder) make() error {
	if err := os.MkdirAll(string(g), 0o755); err != nil {
		return fmt.Errorf("making the folder for ralph: %w", err)
	}
	return nil
}

// path is where the ralph with this SHA-256 is. Its hidden commands are called
// there, where no agent can change it, and also when it is another ralph that
// was installed.
func (g guestFolder) path(hash string) string {
	return filepath.Join(string(g), wire.Dir(hash), wire.Program)
}

// put makes sure that the program is in the folder, unaltered: a program that
// ignores that a mount is read-only would let an agent write to it. It returns
// the path.
func (g guestFolder) put(p guestbin.Payload) (string, error) {
	path := g.path(p.Hash)
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the ralph for sandboxes: %w", err)
	}
	if sum := sha256.Sum256(content); err == nil && hex.EncodeToString(sum[:]) == p.Hash {
		return path, nil
	}
	if content, err = p.Binary(); err != nil {
		return "", err
	}
	if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
		err = atomicwriter.WriteFile(path, content, 0o755)
	}
	if err != nil {
		return "", fmt.Errorf("writing the ralph for sandboxes: %w", err)
	}
	return path, nil
}
