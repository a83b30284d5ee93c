// Package objectdirs finds the object directories of a repository: its own and its
// alternates. A sandbox has them mounted read-only, so they must hold nothing but
// git's objects.
package objectdirs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// MountRoot is where a sandbox has the object directories, each below it at its own
// path, so that relative alternates work.
const MountRoot = "/opt/ralph-git/host"

// maxChain is the number of object directories that a repository may have. git itself
// follows five levels of alternates.
const maxChain = 16

// maxAlternates is the size of the largest alternates file that is read.
const maxAlternates = 4 << 20

// Dir is an object directory on the host, without links, and in the sandbox.
type Dir struct {
	Source, Target string
	path           string // on the host, as git spells it
}

// Find returns the object directories of a repository, its own first.
func Find(commonDir string) ([]Dir, error) {
	path := filepath.Join(commonDir, "objects")
	own, err := newDir(path, MountRoot+filepath.ToSlash(path))
	if err != nil {
		return nil, err
	}
	chain := []Dir{own}
	for i := 0; i < len(chain); i++ {
		more, err := alternates(chain[i])
		if err != nil {
			return nil, err
		}
		for _, d := range more {
			if !slices.ContainsFunc(chain, func(known Dir) bool { return known.Target == d.Target }) {
				chain = append(chain, d)
			}
		}
		if len(chain) > maxChain {
			return nil, repack(fmt.Errorf("reading alternates of %s: more than %d object directories", path, maxChain))
		}
	}
	return chain, nil
}

// Alternates returns the object directories outside of the repository. They are chosen
// by everything that can write to its git directory, so the user has to approve them.
func Alternates(commonDir string) ([]string, error) {
	chain, err := Find(commonDir)
	if err != nil {
		return nil, err
	}
	home, err := filepath.EvalSymlinks(commonDir)
	if err != nil {
		return nil, fmt.Errorf("reading the object directories: %w", err)
	}
	var outside []string
	for _, d := range chain {
		if d.Source != filepath.Join(home, "objects") && !slices.Contains(outside, d.Source) {
			outside = append(outside, d.Source)
		}
	}
	slices.Sort(outside)
	return outside, nil
}

// FindApproved returns the object directories if those outside of the repository are
// approved and hold nothing but objects.
func FindApproved(commonDir string, approved []string) ([]Dir, error) {
	outside, err := Alternates(commonDir)
	if err != nil {
		return nil, err
	}
	for _, dir := range outside {
		if !slices.Contains(approved, dir) {
			return nil, fmt.Errorf("mounting alternates %s: not approved", dir)
		}
		for name, known := range map[string]*regexp.Regexp{"pack": packEntry(), "info": infoEntry()} {
			if err := checkEntries(filepath.Join(dir, name), known); err != nil {
				return nil, err
			}
		}
	}
	return Find(commonDir)
}

// The entries of an object directory, and of the directories pack and info in it.
var (
	objectEntry = lazyregexp.New(`^([0-9a-f]{2}|pack|info|incoming-.*|tmp_.*|bulk-fsync.*|\.DS_Store)$`)
	packEntry   = lazyregexp.New(`^(pack-[0-9a-f]{40,64}\.[a-z-]+|multi-pack-index(-[0-9a-f]{40,64}\.[a-z]+|\.d)?|\.?tmp[-_].*|\.DS_Store)$`)
	infoEntry   = lazyregexp.New(`^(alternates|http-alternates|packs|commit-graph|commit-graphs|\.DS_Store)$`)
)

// checkEntries refuses a directory with unknown entries; a missing one has none.
func checkEntries(dir string, known *regexp.Regexp) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the object directories: %w", err)
	}
	for _, e := range entries {
		if !known.MatchString(e.Name()) {
			return fmt.Errorf("mounting the object directory %s: unexpected entry %q", dir, e.Name())
		}
	}
	return nil
}

// newDir resolves links and checks what a directory holds.
func newDir(path, target string) (Dir, error) {
	source, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Dir{}, fmt.Errorf("reading the object directories: %w", err)
	}
	return Dir{Source: source, Target: target, path: path}, checkEntries(source, objectEntry())
}

// sandboxDirs are directories of the sandbox that nothing is mounted into.
var sandboxDirs = lazyregexp.New(`^/(proc|sys|dev|etc|usr|bin|sbin|lib[0-9a-z]*|boot|run|opt/ralph[^/]*|home/agent)?/`)

// alternates reads the alternates file of an object directory. A relative path has the
// same target in the sandbox as on the host, seen from MountRoot; an absolute one is
// kept.
func alternates(d Dir) ([]Dir, error) {
	file := filepath.Join(d.Source, "info", "alternates")
	content, err := read(file)
	if err != nil {
		return nil, fmt.Errorf("reading alternates: %w", err)
	}
	var found []Dir
	for line := range strings.SplitSeq(string(content), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '"' {
			if line, err = strconv.Unquote(line); err != nil {
				return nil, fmt.Errorf("reading alternates: %s: %w", file, err)
			}
		}
		path, target := filepath.Clean(line), filepath.ToSlash(filepath.Clean(line))
		if !filepath.IsAbs(line) {
			path, target = filepath.Join(d.path, line), filepath.ToSlash(filepath.Join(d.Target, line))
		} else if sandboxDirs().MatchString(target + "/") {
			return nil, repack(fmt.Errorf("mounting alternates %s: a system directory of the sandbox", line))
		}
		next, err := newDir(path, target)
		if err != nil {
			return nil, err
		}
		found = append(found, next)
	}
	return found, nil
}

// read reads a regular file that may be missing.
func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case os.IsNotExist(err) || err == nil && !info.Mode().IsRegular():
		return nil, nil
	case err != nil:
		return nil, err
	case info.Size() > maxAlternates:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxAlternates)
	}
	return os.ReadFile(path)
}

func repack(err error) error {
	return hint.Wrap(err, "repack the repository with %q, or set sandbox.git to %q", "git repack -a -d", "direct")
}
