package gitsync

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/atomicwriter"
)

// uncommitted are the files of a working tree that are not as its commit has them:
// what each holds, by path. A folder, which is a repository of its own, ends with a
// slash.
type uncommitted struct {
	ids     map[string]string
	tracked []string // those that the commit has
}

// maxUntracked is how many untracked files are listed one by one. Of more, only the
// folders are.
const maxUntracked = 2000

// uncommitted looks at the working tree. Nothing that its attributes name is run.
func (r *Repo) uncommitted(ctx context.Context) (uncommitted, error) {
	all, err := r.readConfig(ctx)
	if err != nil {
		return uncommitted{}, err
	}
	format, err := r.git.line(ctx, "rev-parse", "--show-object-format")
	if err != nil {
		return uncommitted{}, fmt.Errorf("looking for uncommitted changes: %w", err)
	}
	length := 40
	if format == "sha256" {
		length = 64
	}
	u := uncommitted{ids: map[string]string{}}
	for _, mode := range []string{"all", "normal"} {
		out, err := r.git.with(withoutFilters(all)...).look(ctx, "status", "--porcelain", "-z", "--untracked-files="+mode, "--ignore-submodules=all", "--no-renames")
		if err != nil {
			return uncommitted{}, fmt.Errorf("looking for uncommitted changes in %s: %w", r.root, err)
		}
		if mode == "all" && strings.Count("\x00"+string(out), "\x00?? ") > maxUntracked {
			continue
		}
		for line := range strings.SplitSeq(string(out), "\x00") {
			if len(line) < 4 {
				continue
			}
			path := line[3:]
			if u.ids[path] = "?"; !strings.HasSuffix(path, "/") {
				u.ids[path] = blobID(r.root, path, length)
			}
			if line[0] != '?' && line[0] != 'A' {
				u.tracked = append(u.tracked, path)
			}
		}
		break
	}
	return u, nil
}

// Uncommitted are the paths of files with uncommitted changes.
func (r *Repo) Uncommitted(ctx context.Context) ([]string, error) {
	u, err := r.uncommitted(ctx)
	return slices.Sorted(maps.Keys(u.ids)), err
}

// owners is noted about a working tree: whose its uncommitted changes are.
type owners struct {
	// Users are the files that had uncommitted changes before the last command, and
	// what they held.
	Users map[string]string `json:"users"`
	// Runs are those that the last command has left, and what they held.
	Runs map[string]string `json:"runs"`
	// Unknown says that it could not be seen what the last command has left.
	Unknown bool `json:"unknown,omitempty"`
}

func (r *Repo) ownersPath() string {
	sum := sha256.Sum256([]byte(r.root))
	return filepath.Join(r.stateDir, "git", "uncommitted", hex.EncodeToString(sum[:12])+".json")
}

// owners reads what is noted; nothing that cannot be read is the sandbox's.
func (r *Repo) owners() owners {
	var o owners
	if content, err := os.ReadFile(r.ownersPath()); err == nil {
		_ = json.Unmarshal(content, &o)
	}
	return o
}

func (r *Repo) noteOwners(o owners) error {
	path := r.ownersPath()
	if len(o.Users)+len(o.Runs) == 0 && !o.Unknown {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("noting whose the uncommitted changes are: %w", err)
		}
		return nil
	}
	content, err := json.Marshal(o)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = atomicwriter.WriteFile(path, content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting whose the uncommitted changes are: %w", err)
	}
	return nil
}

// protect keeps the sandbox's git from committing what the user has not committed.
// killed says that the last command has not noted what it left: all that was not
// the user's before it is the sandbox's then. A repository in a folder of its own is
// nobody's to commit. It returns the user's files.
func (r *Repo) protect(ctx context.Context, st *state, sh Shell, killed bool) ([]string, error) {
	u, err := r.uncommitted(ctx)
	if err != nil {
		return nil, err
	}
	was, users := r.owners(), map[string]string{}
	killed = killed || was.Unknown
	for path, id := range u.ids {
		_, before := was.Users[path]
		if left, is := was.Runs[path]; is && left == id && id != "?" || killed && !before && !strings.HasSuffix(path, "/") {
			continue
		}
		users[path] = id
	}
	if err := r.noteOwners(owners{Users: users, Runs: was.Runs, Unknown: was.Unknown}); err != nil {
		return nil, err
	}
	if len(users) > 0 || st.Guarded {
		if err := r.guard(ctx, st, sh, users, u.tracked); err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(users)), nil
}

// guardScript marks files in the sandbox's index, and has its git ignore others.
// Its input are lines for each: what is to be done, and a name as git quotes it. A
// file that is not in the index would fail all.
const guardScript = plainGit + `d=$(git rev-parse --git-dir) && mkdir -p "$d/info" && t=$d/ralph-guard && cat > "$t" || exit
sed -n 's/^exclude //p' "$t" > "$d/info/exclude" && git -c core.quotePath=true ls-files > "$t.all" || exit
for flag in no-skip-worktree skip-worktree; do
	sed -n "s/^$flag //p" "$t" > "$t.some"
	if [ -s "$t.some" ]; then grep -Fx -f "$t.some" "$t.all" | git update-index --$flag --stdin || exit; fi
done
rm -f "$t" "$t.all" "$t.some"
`

// guard makes the sandbox's git leave files alone: those that are tracked by its
// index, others by a list of its own of ignored files.
func (r *Repo) guard(ctx context.Context, st *state, sh Shell, users map[string]string, tracked []string) error {
	all, err := r.readConfig(ctx)
	if err != nil {
		return err
	}
	exclude, err := r.excludes(all)
	if err != nil {
		return err
	}
	filtered, err := filteredPaths(ctx, r.git, all)
	if err != nil {
		return err
	}
	var input strings.Builder
	for line := range strings.Lines(string(exclude)) {
		_, _ = fmt.Fprintf(&input, "exclude %s\n", strings.TrimSuffix(line, "\n"))
	}
	known := map[string]bool{}
	for _, path := range tracked {
		known[path] = true
	}
	var marked []string
	for _, path := range slices.Sorted(maps.Keys(users)) {
		if known[path] {
			marked = append(marked, path)
			continue
		}
		_, _ = fmt.Fprintf(&input, "exclude %s\n", ignorePattern(path))
	}
	for _, path := range st.Marked {
		_, _ = fmt.Fprintf(&input, "no-skip-worktree %s\n", quoted(path))
	}
	for _, path := range append(filtered, marked...) {
		_, _ = fmt.Fprintf(&input, "skip-worktree %s\n", quoted(path))
	}
	if err := sh(ctx, guardScript, nil, strings.NewReader(input.String()), io.Discard); err != nil {
		return fmt.Errorf("keeping your uncommitted changes from the commits of the sandbox %s: %w", r.name, err)
	}
	st.Marked, st.Guarded = marked, len(users) > 0
	return r.save(*st)
}

// conclude notes what a command has left in the working tree. It returns those of
// the user's uncommitted files that have changed since it began, and repositories
// that were not there.
func (r *Repo) conclude(ctx context.Context) (changed, repositories []string, err error) {
	was := r.owners()
	u, err := r.uncommitted(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, r.noteOwners(owners{Users: was.Users, Runs: was.Runs, Unknown: true}))
	}
	runs := maps.Clone(u.ids)
	for path := range u.ids {
		_, users := was.Users[path]
		_, before := was.Runs[path]
		if strings.HasSuffix(path, "/") && !users && !before && exists(filepath.Join(r.root, filepath.FromSlash(path)), ".git") {
			repositories = append(repositories, strings.TrimSuffix(path, "/"))
		}
	}
	for path, id := range was.Users {
		now, is := u.ids[path]
		if !is {
			now = blobID(r.root, path, len(id))
		}
		if now != id {
			changed = append(changed, path)
		}
		delete(runs, path)
	}
	slices.Sort(changed)
	slices.Sort(repositories)
	return changed, repositories, r.noteOwners(owners{Users: was.Users, Runs: runs})
}

// ignorePattern is a line of a list of ignored files that stands for one path.
func ignorePattern(path string) string {
	var b strings.Builder
	b.WriteByte('/')
	for _, c := range []byte(path) {
		switch {
		case c < ' ' || c == 0x7f:
			b.WriteByte('?')
		case strings.IndexByte(`\*?[ `, c) >= 0:
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// quoted is a path as git prints it.
func quoted(path string) string {
	var b strings.Builder
	strange := false
	for _, c := range []byte(path) {
		i := strings.IndexByte("\a\b\t\n\v\f\r\"\\", c)
		switch {
		case i >= 0:
			strange = true
			b.WriteByte('\\')
			b.WriteByte(`abtnvfr"\`[i])
		case c < ' ' || c >= 0x7f:
			strange = true
			_, _ = fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	if strange {
		return `"` + b.String() + `"`
	}
	return path
}
