package backlog

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
)

// maxSpecs bounds the number of files that [SpecFiles] returns.
const maxSpecs = 10_000

// SpecFiles returns the Markdown files in a directory and its subdirectories, as sorted
// slash-separated paths below it. Without the directory there are none. Hidden
// subdirectories and links to directories are skipped.
func SpecFiles(dir string) ([]string, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, nil //nolint:nilerr // there are none
	}
	var files []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(file) != ".md":
			return nil
		case len(files) == maxSpecs:
			return fs.SkipAll
		}
		files = append(files, file)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing specs: %w", err)
	}
	return files, nil
}

// specPath returns the path below specs/ of a spec that a plan names. Agents also name it
// with the directory, or by the end of its path alone: of two features with a spec.md each, a
// plan for one must not delete the tasks of the other. Specs that are not files stay as
// they are.
func specPath(spec string, files []string) (string, error) {
	spec = strings.TrimPrefix(spec, "./")
	below := strings.TrimPrefix(spec, "specs/")
	var ends []string
	for _, file := range files {
		switch {
		case file == spec:
			return spec, nil
		case file == below:
			return below, nil
		case strings.HasSuffix(file, "/"+below):
			ends = append(ends, file)
		}
	}
	switch {
	case len(ends) == 1:
		return ends[0], nil
	case len(ends) > 1 && below != "":
		return "", hint.Wrap(fmt.Errorf("spec %q can be %s or %s", spec, ends[0], ends[1]), "name its path below specs/")
	}
	return spec, nil
}
