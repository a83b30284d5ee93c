package privategit

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/pattern"
)

// maxChain is how many folders of objects a repository may borrow from. git
// itself follows five in a row.
const maxChain = 16

// objects returns the folders that hold the repository's objects, the first one
// its own, and where git in the sandbox looks for them: a relative path from one
// to the next leads to the same place there, an absolute one stays as it is.
func (r *Repo) objects() ([]lifecycle.Borrowed, error) {
	own := filepath.Join(r.commonDir, "objects")
	chain := []lifecycle.Borrowed{{Source: own, Target: hostFolder + filepath.ToSlash(own)}}
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

// alternates reads which other folders of objects one refers to.
func alternates(b lifecycle.Borrowed) ([]lifecycle.Borrowed, error) {
	source, err := objectFolder(b.Source)
	if err != nil {
		return nil, err
	}
	content, err := readSmall(filepath.Join(source, "info", "alternates"))
	if err != nil {
		return nil, err
	}
	var found []lifecycle.Borrowed
	for line := range strings.SplitSeq(string(content), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '"' {
			if line, err = strconv.Unquote(line); err != nil {
				return nil, fmt.Errorf("reading %s: %w", filepath.Join(source, "info", "alternates"), err)
			}
		}
		next := lifecycle.Borrowed{Source: filepath.Clean(line), Target: filepath.ToSlash(filepath.Clean(line))}
		if !filepath.IsAbs(line) {
			next = lifecycle.Borrowed{Source: filepath.Join(b.Source, line), Target: filepath.ToSlash(filepath.Join(b.Target, line))}
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
var system = pattern.New(`^/(proc|sys|dev|etc|usr|bin|sbin|lib[0-9a-z]*|boot|run|opt/ralph[^/]*|home/agent)?/`)

var objectEntry = pattern.New(`^([0-9a-f]{2}|pack|info|incoming-.*|tmp_.*|bulk-fsync.*|\.DS_Store)$`)

// objectFolder makes sure that a folder, which is going to be mounted, holds
// git's objects and nothing else, and returns its path without links.
func objectFolder(dir string) (string, error) {
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("looking for the repository's objects: %w", err)
	}
	entries, err := os.ReadDir(resolved)
	if err != nil {
		return "", fmt.Errorf("looking for the repository's objects: %w", err)
	}
	for _, e := range entries {
		if !objectEntry().MatchString(e.Name()) {
			return "", fmt.Errorf("%s is to hold objects of git, but also has %q: it is not given to a sandbox", dir, e.Name())
		}
	}
	return resolved, nil
}
