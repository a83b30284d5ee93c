package backlogs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// copies is the folder of a scope with a copy of its backlog for each dry run, by the ID of its run record.
const copies = "dry-runs"

func copyDir(h host.Host, name, id string) string { return scopes.Path(h.StateDir, name, copies, id) }

// OpenCopy opens a dry run's copy of a backlog. A missing one is created.
func OpenCopy(ctx context.Context, h host.Host, name, id string, of *backlog.Store) (*backlog.Store, error) {
	path := scopes.Path(h.StateDir, name, copies, id, database)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := of.CopyTo(ctx, path); err != nil {
			return nil, err
		}
	}
	return backlog.OpenHost(ctx, path, of.Scope())
}

// RemoveCopy removes the copy of a dry run, which may be missing.
func RemoveCopy(h host.Host, name, id string) error { return os.RemoveAll(copyDir(h, name, id)) }

// SweepCopies removes the copies of dry runs whose processes were killed before they could do so. The record of a dry
// run is older than its copy.
func SweepCopies(h host.Host, name string) error {
	entries, err := os.ReadDir(copyDir(h, name, ""))
	if len(entries) == 0 {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	records, err := h.RecordsOf(name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !slices.ContainsFunc(records, func(r host.Record) bool { return r.ID == e.Name() }) {
			err = errors.Join(err, RemoveCopy(h, name, e.Name()))
		}
	}
	return err
}
