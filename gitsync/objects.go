package gitsync

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

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// maxChain is how many folders of objects a repository may borrow from. git
// itself follows five in a row.
const maxChain = 16

// objects returns the folders that hold the repository's objects, the first one
// its own, and where git in the sandbox looks for them: a relative path from one
// to the next leads to the same place there, an absolute one stays as it is.
func objects(commonDir string) ([]Borrowed, error) {
	own := filepath.Join(commonDir, "objects")
	chain := []Borrowed{{Source: own, Target: hostFolder + filepath.ToSlash(own)}}
	for i := 0; i < len(chain); i++ {
		more, err := alternates(chain[i])
		if err != nil {
			return nil, err
		}
		for _, b := range more {
			known := false
			for _, c := range chain {
				known = known || c.Target == b.Target
			}
			if !known {
				chain = append(chain, b)
			}
		}
		if len(chain) > maxChain {
			return nil, fmt.Errorf("%s borrows objects from more than %d other repositories: repack it (git repack -a -d), %s", own, maxChain, useDirect)
		}
	}
	return chain, nil
}

// Alternates returns the folders, without links, that a repository borrows objects
// from: where its alternates lead, and its own folder if that is a link. Whoever
// can write into its git directory chooses them.
func Alternates(commonDir string) ([]string, error) {
	chain, err := objects(commonDir)
	if err != nil {
		return nil, err
	}
	home, err := filepath.EvalSymlinks(commonDir)
	if err != nil {
		return nil, fmt.Errorf("looking for the repository's objects: %w", err)
	}
	var borrowed []string
	for _, b := range chain {
		source, err := objectFolder(b.Source)
		if err != nil {
			return nil, err
		}
		if source != filepath.Join(home, "objects") && !slices.Contains(borrowed, source) {
			borrowed = append(borrowed, source)
		}
	}
	slices.Sort(borrowed)
	return borrowed, nil
}

// Borrowing returns the repository with folders that objects may be borrowed from.
func (r *Repo) Borrowing(alternates []string) *Repo {
	with := *r
	with.alternates = alternates
	return &with
}

// checkAlternates makes sure that nothing is mounted but what may be borrowed, and
// that what is borrowed holds nothing but objects.
func (r *Repo) checkAlternates() error {
	borrowed, err := Alternates(r.commonDir)
	if err != nil {
		return err
	}
	for _, dir := range borrowed {
		if !slices.Contains(r.alternates, dir) {
			return fmt.Errorf("borrowing objects from %s: not approved", dir)
		}
		for name, known := range map[string]*regexp.Regexp{"pack": packEntry(), "info": infoEntry()} {
			if err := checkEntries(filepath.Join(dir, name), known); err != nil {
				return err
			}
		}
	}
	return nil
}

// What git keeps beside single objects.
var (
	packEntry = lazyregexp.New(`^(pack-[0-9a-f]{40,64}\.[a-z-]+|multi-pack-index(-[0-9a-f]{40,64}\.[a-z]+|\.d)?|\.?tmp[-_].*|\.DS_Store)$`)
	infoEntry = lazyregexp.New(`^(alternates|http-alternates|packs|commit-graph|commit-graphs|\.DS_Store)$`)
)

// checkEntries refuses a folder with other entries than those that are known. One
// that is not there has none.
func checkEntries(dir string, known *regexp.Regexp) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking for the repository's objects: %w", err)
	}
	for _, e := range entries {
		if !known.MatchString(e.Name()) {
			return fmt.Errorf("%s is to hold objects of git, but also has %q: it is not given to a sandbox", dir, e.Name())
		}
	}
	return nil
}

// alternates reads which other folders of objects one refers to.
func alternates(b Borrowed) ([]Borrowed, error) {
	source, err := objectFolder(b.Source)
	if err != nil {
		return nil, err
	}
	content, err := readSmall(filepath.Join(source, "info", "alternates"))
	if err != nil {
		return nil, err
	}
	var found []Borrowed
	for line := range strings.SplitSeq(string(content), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '"' {
			if line, err = strconv.Unquote(line); err != nil {
				return nil, fmt.Errorf("reading %s: %w", filepath.Join(source, "info", "alternates"), err)
			}
		}
		next := Borrowed{Source: filepath.Clean(line), Target: filepath.ToSlash(filepath.Clean(line))}
		if !filepath.IsAbs(line) {
			next = Borrowed{Source: filepath.Join(b.Source, line), Target: filepath.ToSlash(filepath.Join(b.Target, line))}
		} else if system().MatchString(next.Target + "/") {
			return nil, fmt.Errorf("this repository borrows objects from %s, where a sandbox has its own system: repack it (git repack -a -d), %s", line, useDirect)
		}
		if _, err := objectFolder(next.Source); err != nil {
			return nil, err
		}
		found = append(found, next)
	}
	return found, nil
}

// system are the folders of the sandbox that nothing may be mounted into.
var system = lazyregexp.New(`^/(proc|sys|dev|etc|usr|bin|sbin|lib[0-9a-z]*|boot|run|opt/ralph[^/]*|home/agent)?/`)

var objectEntry = lazyregexp.New(`^([0-9a-f]{2}|pack|info|incoming-.*|tmp_.*|bulk-fsync.*|\.DS_Store)$`)

// objectFolder makes sure that a folder, which is going to be mounted, holds
// git's objects and nothing else, and returns its path without links.
func objectFolder(dir string) (string, error) {
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("looking for the repository's objects: %w", err)
	}
	return resolved, checkEntries(resolved, objectEntry())
}
