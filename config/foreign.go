package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
)

// errForeign is the error for a ralph.toml of another program.
var errForeign = errors.New("not a configuration of docker-ralph")

// foreign counts what a file has in common with a configuration of docker-ralph.
type foreign struct {
	known, unknown int
	first          *FileError // the first unknown name
	top            bool       // an unknown name is at the top level
}

// count counts an unknown name at a depth, which may be similar to one of ours. At the top level,
// similar names such as "git" are ignored: they are common.
func (f *foreign) count(problem *FileError, depth int, similar bool) {
	switch {
	case similar && depth == 0:
	case similar:
		f.known++
	case f.first == nil:
		f.first = problem
		fallthrough
	default:
		f.unknown++
		f.top = f.top || depth == 0
	}
}

// error returns an error if the file looks like the ralph.toml of another program: most of its
// names are unknown, and not similar to ours.
func (f *foreign) error(d document) error {
	if f.unknown <= f.known || !d.maybeForeign() {
		return nil
	}
	what, _, _ := strings.Cut(f.first.Message, "; known keys: ")
	err := fmt.Errorf("%s is %w: line %d has the %s", d.path, errForeign, f.first.Line, what)
	return d.foreignHint(err)
}

// maybeForeign reports whether other programs have files of this name.
func (d document) maybeForeign() bool {
	return filepath.Base(d.path) == repositoryFile && d.from == FromRepository
}

// foreignHint adds what to do if the file belongs to another program.
func (d document) foreignHint(err error) error {
	if !d.maybeForeign() {
		return err
	}
	return hint.Wrap(err, "if it belongs to another program, create %s with %q: it is read instead", ownFile, "docker ralph config init")
}
