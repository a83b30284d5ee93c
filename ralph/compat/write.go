package compat

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/hint"
)

// write writes a file atomically.
func (f file) write(dir string) error {
	path := filepath.Join(dir, filepath.FromSlash(f.path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicwriter.WriteFile(path, f.content, f.mode)
}

// manifestName is the list of files of a layout, in the format of sha256sum.
const manifestName = ".ralph-layout"

// manifest has the possible sums of files by path.
type manifest map[string][]string

func (m manifest) has(path, sum string) bool { return slices.Contains(m[path], sum) }

func readManifest(dir string) (manifest, error) {
	f, err := os.Open(filepath.Join(dir, manifestName))
	if err != nil {
		return manifest{}, ignoreMissing(err)
	}
	defer func() { _ = f.Close() }()
	m := manifest{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		sum, path, found := strings.Cut(lines.Text(), "  ")
		if !found {
			return nil, hint.Wrap(fmt.Errorf("%s was not written by ralph", manifestName), "move it away, or choose another directory")
		}
		m[path] = append(m[path], sum)
	}
	return m, lines.Err()
}

// writeManifest records all files, with their previous sums.
func writeManifest(dir string, all []file, previous manifest) error {
	var b strings.Builder
	for _, f := range all {
		sums := append([]string{sum(f.content)}, previous[f.path]...)
		for _, sum := range slices.Compact(sums) {
			_, _ = fmt.Fprintf(&b, "%s  %s\n", sum, f.path)
		}
	}
	return atomicwriter.WriteFile(filepath.Join(dir, manifestName), []byte(b.String()), 0o644)
}
