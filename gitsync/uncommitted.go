package gitsync

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/gitsync/mask"
)

// uncommitted are the uncommitted files of a working tree. A directory with a repository
// in it ends with a slash.
type uncommitted struct {
	ids     map[string]string // object names by path
	tracked map[string]bool
}

// maxUntracked is how many untracked files are listed; of more, only the directories are.
const maxUntracked = 2000

// uncommitted lists the uncommitted files of the working tree.
func (r *Repo) uncommitted(ctx context.Context) (uncommitted, error) {
	config, err := r.git.Config(ctx)
	if err != nil {
		return uncommitted{}, err
	}
	length := 40
	if config.Last("extensions", "objectformat") == "sha256" {
		length = 64
	}
	u := uncommitted{ids: map[string]string{}, tracked: map[string]bool{}}
	for _, mode := range []string{"all", "normal"} {
		out, err := r.git.InWorktree(ctx, "status", "--porcelain", "-z", "--untracked-files="+mode, "--ignore-submodules=all", "--no-renames")
		if err != nil {
			return uncommitted{}, fmt.Errorf("listing uncommitted changes in %s: %w", r.git.Root, err)
		}
		if mode == "all" && strings.Count("\x00"+string(out), "\x00?? ") > maxUntracked {
			continue
		}
		for line := range strings.SplitSeq(string(out), "\x00") {
			if len(line) < 4 {
				continue
			}
			path := line[3:]
			if u.ids[path] = hostgit.UnknownBlob; !isDir(path) {
				u.ids[path] = r.git.BlobID(path, length)
			}
			u.tracked[path] = line[0] != '?' && line[0] != 'A'
		}
		break
	}
	return u, nil
}

func isDir(path string) bool { return strings.HasSuffix(path, "/") }

// Uncommitted returns the paths of files with uncommitted changes.
func (r *Repo) Uncommitted(ctx context.Context) ([]string, error) {
	u, err := r.uncommitted(ctx)
	return slices.Sorted(maps.Keys(u.ids)), err
}

// authors is the record of whose uncommitted changes are in a working tree: object names
// by path.
type authors struct {
	// User are the changes before the last command.
	User map[string]string `json:"user"`
	// Sandbox are those that the last command has left.
	Sandbox map[string]string `json:"sandbox"`
	// Unknown says that what the last command has left could not be listed.
	Unknown bool `json:"unknown,omitempty"`
}

func (r *Repo) authorsPath() string {
	sum := sha256.Sum256([]byte(r.git.Root))
	return filepath.Join(r.stateDir, "git", "uncommitted", hex.EncodeToString(sum[:12])+".json")
}

// authors reads the record. Without a readable one, all changes are the user's.
func (r *Repo) authors() authors {
	var a authors
	if content, err := os.ReadFile(r.authorsPath()); err == nil {
		_ = json.Unmarshal(content, &a)
	}
	return a
}

func (r *Repo) saveAuthors(a authors) (err error) {
	if len(a.User)+len(a.Sandbox) == 0 && !a.Unknown {
		if err = os.Remove(r.authorsPath()); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	} else {
		var content []byte
		if content, err = json.Marshal(a); err == nil {
			err = writePrivate(r.authorsPath(), content)
		}
	}
	if err != nil {
		return fmt.Errorf("recording uncommitted changes: %w", err)
	}
	return nil
}

// protect excludes the user's uncommitted changes from the sandbox's commits, and returns
// their paths. After a killed command, all that was not the user's before it is the
// sandbox's; a directory with a repository is never committed.
func (r *Repo) protect(ctx context.Context, st *state, sh Shell, killed bool) ([]string, error) {
	if r.clone {
		return r.uncommittedHere(ctx)
	}
	u, err := r.uncommitted(ctx)
	if err != nil {
		return nil, err
	}
	was, user := r.authors(), map[string]string{}
	killed = killed || was.Unknown
	for path, id := range u.ids {
		_, before := was.User[path]
		if left, is := was.Sandbox[path]; is && left == id && id != hostgit.UnknownBlob || killed && !before && !isDir(path) {
			continue
		}
		user[path] = id
	}
	if err := r.saveAuthors(authors{User: user, Sandbox: was.Sandbox, Unknown: was.Unknown}); err != nil {
		return nil, err
	}
	paths := slices.Sorted(maps.Keys(user))
	if len(paths) > 0 || st.Protected {
		if err := r.exclude(ctx, st, sh, paths, u.tracked); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// recordUncommitted records what a command has left. The result gets the user's uncommitted
// files that have changed, and the directories that are repositories now.
func (r *Repo) recordUncommitted(ctx context.Context, res *Result) error {
	was := r.authors()
	u, err := r.uncommitted(ctx)
	if err != nil {
		return errors.Join(err, r.saveAuthors(authors{User: was.User, Sandbox: was.Sandbox, Unknown: true}))
	}
	left := maps.Clone(u.ids)
	var created []string
	for path := range u.ids {
		_, users := was.User[path]
		_, before := was.Sandbox[path]
		if users || before {
			continue
		}
		if created = append(created, path); isDir(path) && exists(r.git.Root, filepath.FromSlash(path), ".git") &&
			mask.CheckGitFile(r.git, filepath.Join(r.git.Root, filepath.FromSlash(path))) != nil { // no worktree of this repository
			res.Repositories = append(res.Repositories, strings.TrimSuffix(path, "/"))
		}
	}
	for path, id := range was.User {
		now, is := u.ids[path]
		if !is {
			now = r.git.BlobID(path, len(id))
		}
		if now != id {
			res.Changed = append(res.Changed, path)
		}
		delete(left, path)
	}
	slices.Sort(res.Changed)
	slices.Sort(res.Repositories)
	res.GitDirs = slices.Compact(slices.Sorted(slices.Values(append(res.GitDirs, r.untrackedGitDirs(created)...))))
	return r.saveAuthors(authors{User: was.User, Sandbox: left})
}
