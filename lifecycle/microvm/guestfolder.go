package microvm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
	"github.com/docker-ralph/docker-ralph/wire"
)

// guestFolder is the directory that every sandbox mounts read-only. It contains each
// version of ralph in a subdirectory, so existing sandboxes get a new version without
// being recreated.
type guestFolder string

func (d *Driver) guestFolder() guestFolder { return guestFolder(filepath.Join(d.StateDir, "guest")) }

func (g guestFolder) make() error {
	if err := os.MkdirAll(string(g), 0o755); err != nil {
		return fmt.Errorf("creating the directory of ralph: %w", err)
	}
	return nil
}

// path returns the path of the ralph with this SHA-256. Its hidden commands are run
// from there, because no agent can change it and the installed ralph may be another
// version.
func (g guestFolder) path(hash string) string {
	return filepath.Join(string(g), wire.Dir(hash), wire.Program)
}

// put writes ralph to the directory, unless it is there unchanged, and returns its
// path. An agent could have changed it if a program ignored that the mount is
// read-only.
func (g guestFolder) put(p guestbin.Payload) (string, error) {
	path := g.path(p.Hash)
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("unpacking ralph: %w", err)
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
		return "", fmt.Errorf("writing ralph: %w", err)
	}
	return path, nil
}

// Program is a version of ralph that microVMs mount.
type Program struct {
	Dir    string
	Needed bool // it is of this version, or a sandbox was prepared with it
}

// Programs lists the versions of ralph in stateDir.
func Programs(stateDir string) ([]Program, error) {
	dir := string((&Driver{Options: Options{StateDir: stateDir}}).guestFolder())
	entries, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	p, err := guestbin.For(runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	needed := map[string]bool{p.Short(): true}
	for _, driver := range Drivers() {
		names, err := Images(stateDir, driver)
		if err != nil {
			return nil, err
		}
		for name := range names {
			if rec, _, err := recordsOf(stateDir, driver).read(name); err != nil {
				return nil, err
			} else if rec.Prepared != "" {
				needed[wire.Dir(rec.Prepared)] = true
			}
		}
	}
	var all []Program
	for _, e := range entries {
		all = append(all, Program{filepath.Join(dir, e.Name()), needed[e.Name()]})
	}
	return all, nil
}
