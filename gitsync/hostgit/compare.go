package hostgit

import (
	"fmt"
	"os"
	"path/filepath"
)

// Compare returns lines for update-index about files that have their new content
// already, and a file that is not tracked where a new one has to be.
func (g Git) Compare(index []Entry, changes []Change, format int) (written []string, conflicting string) {
	tracked := make(map[string]Entry, len(index))
	for _, e := range index {
		tracked[e.Path] = e
	}
	for _, c := range changes {
		e, is := tracked[c.Path]
		switch {
		case c.Deleted() || is && e.OID == c.NewID:
			continue
		case is && e.OID != c.OldID, e.Tag == 'S':
			continue // read-tree decides
		case g.BlobID(c.Path, format) == c.NewID:
			written = append(written, fmt.Sprintf("%s %s\t%s\x00", c.NewMode, c.NewID, c.Path))
		case !is:
			if path := g.untracked(tracked, c.Path); path != "" {
				return nil, path
			}
		}
	}
	return written, ""
}

// untracked returns what is at the path of a new file, or at that of one of its
// directories, and not tracked; empty for nothing. read-tree would remove ignored files.
func (g Git) untracked(tracked map[string]Entry, path string) string {
	for i := range len(path) + 1 {
		if i < len(path) && path[i] != '/' {
			continue
		}
		at := path[:i]
		info, err := os.Lstat(filepath.Join(g.Root, filepath.FromSlash(at)))
		if err != nil {
			return ""
		}
		if _, is := tracked[at]; !is && (i == len(path) || !info.IsDir()) {
			return at
		}
	}
	return ""
}
