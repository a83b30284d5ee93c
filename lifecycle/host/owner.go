package host

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// Owner is the worktree that a sandbox and its state were created for. It outlives the
// sandbox, so that what is left of deleted worktrees and repositories can be found.
type Owner struct {
	Scope      gitrepo.Scope `json:"scope"`
	Root       string        `json:"root"`
	Repository string        `json:"repository"` // as [lifecycle.Spec.Cache]
}

// OwnerOf returns the owner of the sandboxes of a worktree.
func OwnerOf(wt gitrepo.Worktree) Owner {
	return Owner{wt.Scope, wt.Root, cmp.Or(wt.MainRoot, wt.CommonDir)}
}

// OwnerPath is the file with the owner of a sandbox.
func (h Host) OwnerPath(sandbox string) string {
	return filepath.Join(h.StateDir, "owners", sandbox+".json")
}

// SaveOwner records the owner of a sandbox.
func (h Host) SaveOwner(sandbox string, o Owner) error {
	path := h.OwnerPath(sandbox)
	if has, err := readOwner(path); err == nil && has == o {
		return nil
	}
	content, err := json.Marshal(o)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = atomicwriter.WriteFile(path, append(content, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("recording the worktree of the sandbox %s: %w", sandbox, err)
	}
	return nil
}

// Owners returns the recorded owners by the name of the sandbox.
func (h Host) Owners() (map[string]Owner, error) {
	files, err := os.ReadDir(filepath.Dir(h.OwnerPath("")))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the worktrees of sandboxes: %w", err)
	}
	owners := map[string]Owner{}
	for _, f := range files {
		name, isRecord := strings.CutSuffix(f.Name(), ".json")
		if o, err := readOwner(h.OwnerPath(name)); isRecord && err == nil {
			owners[name] = o
		}
	}
	return owners, nil
}

func readOwner(path string) (o Owner, err error) {
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &o)
	}
	return o, err
}
