package sbx

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// versionNote remembers which version a program file is: asking it takes as
// long as a whole dispatch may.
type versionNote struct {
	Path     string          `json:"path"`
	Size     int64           `json:"size"`
	Modified time.Time       `json:"modified"`
	Version  microvm.Version `json:"version"`
}

func (d *Dialect) version(ctx context.Context, client microvm.Client) (microvm.Version, error) {
	info, err := os.Stat(client.Path)
	if err != nil {
		return microvm.Version{}, fmt.Errorf("looking at sbx: %w", err)
	}
	now := versionNote{Path: client.Path, Size: info.Size(), Modified: info.ModTime().UTC()}
	file := filepath.Join(d.StateDir, "microvms", "sbx-version.json")
	var known versionNote
	if content, err := os.ReadFile(file); err == nil && json.Unmarshal(content, &known) == nil {
		now.Version = known.Version
		if now == known {
			return known.Version, nil
		}
	}
	out, err := client.Output(ctx, 15*time.Second, "version")
	if err != nil {
		return microvm.Version{}, fmt.Errorf("asking sbx for its version: %w", err)
	}
	if now.Version, err = microvm.ParseVersion(out); err != nil {
		return microvm.Version{}, fmt.Errorf("asking sbx for its version: %w", err)
	}
	content, err := json.Marshal(now)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = atomicwriter.WriteFile(file, content, 0o600)
	}
	if err != nil {
		return microvm.Version{}, fmt.Errorf("noting the version of sbx: %w", err)
	}
	return now.Version, nil
}
