package gitsync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// lockPatience is how long another git may hold the lock of the user's index.
const lockPatience = 3 * time.Second

// change is what happened to one path between two commits.
type change struct {
	path             string
	oldMode, newMode string
	oldID, newID     string
}

func (c change) deleted() bool { return c.newMode == "000000" }

// changes compares two commits; an empty one stands for no files at all.
func (g git) changes(ctx context.Context, from, to string) ([]change, error) {
	if from == "" {
		from = emptyTree(len(to))
	}
	out, err := g.run(ctx, nil, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--no-ext-diff", "--ignore-submodules=none", from, to)
	if err != nil {
		return nil, fmt.Errorf("comparing the sandbox's commits with your branch: %w", err)
	}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	var all []change
	for i := 0; i+1 < len(fields); i += 2 {
		f := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(f) != 5 {
			return nil, fmt.Errorf("comparing the sandbox's commits with your branch: %q was not understood", fields[i])
		}
		all = append(all, change{path: fields[i+1], oldMode: f[0], newMode: f[1], oldID: f[2], newID: f[3]})
	}
	return all, nil
}

// emptyTree is the tree without files, by the length of object names.
func emptyTree(format int) string {
	if format == 64 {
		return "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
	}
	return "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
}

// adopt moves the user's branch forward from one commit to another and brings
// the index along. The files are touched by nobody: they are the sandbox's as
// well as the user's. What the user has staged stays staged. A Conflict says
// why it cannot be.
func (r *Repo) adopt(ctx context.Context, st *state, from, to string) (*Conflict, error) {
	changes, err := r.git.changes(ctx, from, to)
	if err != nil {
		return nil, err
	}
	if r.stale(changes, len(to)) {
		return &Conflict{Kind: filesElsewhere}, nil
	}
	st.Pending = &pending{From: from, To: to, Token: newToken()}
	if err := r.save(*st); err != nil {
		return nil, err
	}
	conflict, err := r.editIndex(ctx, st.Pending.Token, changes, func() error { return r.moveBranch(ctx, st.Branch, from, to) })
	if err == nil && conflict == nil {
		st.agree(to)
	}
	if err == nil {
		st.Pending = nil
		err = r.save(*st)
	}
	return conflict, err
}

// moveBranch moves the user's branch, and the ref that notes it, in one go, if
// the branch is where it was.
func (r *Repo) moveBranch(ctx context.Context, branch, from, to string) error {
	if from == "" {
		from = strings.Repeat("0", len(to))
	}
	input := fmt.Sprintf("update refs/heads/%s %s %s\nupdate %s %s\n", branch, to, from, r.base(), to)
	_, err := r.git.run(ctx, strings.NewReader(input), "update-ref", "-m", "ralph: fast-forward from the sandbox "+r.name, "--stdin")
	if err != nil {
		return fmt.Errorf("moving your branch %q forward: %w", branch, err)
	}
	return nil
}

// editIndex carries changes over to the user's index and calls move between,
// while no other git can change the index.
func (r *Repo) editIndex(ctx context.Context, token string, changes []change, move func() error) (conflict *Conflict, err error) {
	edit := r.indexEdit(token)
	defer edit.clear(token)
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(20 * time.Millisecond) {
		if err = edit.begin(token); !errors.Is(err, fs.ErrExist) {
			break
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return &Conflict{Kind: indexLocked, Detail: edit.lock}, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("changing the index: %w", err)
	}
	entries, err := r.git.entries(ctx)
	if err != nil {
		return nil, err
	}
	lines, flags, clash := carry(entries, changes)
	if clash != "" {
		return &Conflict{Kind: stagedClash, Detail: clash}, nil
	}
	if err := r.writeIndex(ctx, edit, lines, flags); err != nil {
		return nil, err
	}
	if err := move(); err != nil {
		return nil, err
	}
	if err := edit.finish(); err != nil {
		return nil, fmt.Errorf("changing the index: %w", err)
	}
	return nil, nil
}

// writeIndex changes the copy of the index, and lets git note how the files
// are. Filters that would have to be run for that are left to the user's own
// git.
func (r *Repo) writeIndex(ctx context.Context, edit indexEdit, lines []string, flags map[string][]string) error {
	if len(lines) == 0 {
		return nil
	}
	all, err := r.readConfig(ctx)
	if err != nil {
		return err
	}
	g := r.git.with(append(withoutFilters(all), "GIT_INDEX_FILE="+edit.temp)...)
	_, err = g.run(ctx, strings.NewReader(strings.Join(lines, "")), "update-index", "-z", "--index-info")
	for flag, paths := range flags {
		if err == nil {
			_, err = g.run(ctx, strings.NewReader(strings.Join(paths, "\x00")+"\x00"), "update-index", flag, "-z", "--stdin")
		}
	}
	if err != nil {
		return fmt.Errorf("changing the index: %w", err)
	}
	if err := refresh(ctx, g, edit); err != nil {
		return fmt.Errorf("changing the index: %w", err)
	}
	return nil
}

// refresh lets git note how the files are, in a copy: if it waits for something
// in the work tree and we are killed, nobody meets it again. Without that, the
// user's own git looks at the files, so it may fail.
func refresh(ctx context.Context, g git, edit indexEdit) error {
	if err := edit.owner.copyFile(edit.temp, edit.looked); err != nil {
		return err
	}
	_, err := g.with("GIT_INDEX_FILE="+edit.looked).look(ctx, "update-index", "-q", "--refresh")
	if err != nil && !gitrepo.SaysNo(err) {
		return ctx.Err()
	}
	return os.Rename(edit.looked, edit.temp)
}

// withoutFilters are variables that switch the user's filters off.
func withoutFilters(all []setting) []string {
	var entries []string
	n := 0
	for _, s := range all {
		if s.section == "filter" {
			value := ""
			if s.name == "required" {
				value = "false"
			}
			entries = append(entries, fmt.Sprintf("GIT_CONFIG_KEY_%d=filter.%s.%s", n, s.sub, s.name), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
			n++
		}
	}
	return append(entries, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n))
}

// carry decides what the changes mean for an index that the user may have
// staged something in: that stays. A path that would have to be a file and a
// folder at once is a clash.
func carry(entries []entry, changes []change) (lines []string, flags map[string][]string, clash string) {
	staged := make(map[string]entry, len(entries))
	for _, e := range entries {
		staged[e.path] = e
	}
	flags = map[string][]string{}
	gone := map[string]bool{}
	for _, c := range changes {
		if e := staged[c.path]; c.deleted() && e.oid == c.oldID {
			gone[c.path] = true
			lines = append(lines, fmt.Sprintf("0 %s\t%s\x00", c.oldID, c.path))
		}
	}
	for _, c := range changes {
		e, is := staged[c.path]
		asBefore := is && e.oid == c.oldID && e.mode == c.oldMode || !is && c.oldMode == "000000"
		if c.deleted() || !asBefore {
			continue
		}
		if other := obstructs(entries, staged, gone, c.path); other != "" {
			return nil, nil, other
		}
		lines = append(lines, fmt.Sprintf("%s %s\t%s\x00", c.newMode, c.newID, c.path))
		switch e.tag {
		case 'S':
			flags["--skip-worktree"] = append(flags["--skip-worktree"], c.path)
		case 'h':
			flags["--assume-unchanged"] = append(flags["--assume-unchanged"], c.path)
		}
	}
	return lines, flags, ""
}

// obstructs returns an entry of the index, which stays, that is a folder above a
// new path or lies below it.
func obstructs(entries []entry, staged map[string]entry, gone map[string]bool, path string) string {
	for i := strings.IndexByte(path, '/'); i >= 0; {
		if _, is := staged[path[:i]]; is && !gone[path[:i]] {
			return path[:i]
		}
		next := strings.IndexByte(path[i+1:], '/')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	below := path + "/"
	for i := sort.Search(len(entries), func(i int) bool { return entries[i].path >= below }); i < len(entries) && strings.HasPrefix(entries[i].path, below); i++ {
		if !gone[entries[i].path] {
			return entries[i].path
		}
	}
	return ""
}

// recover brings to an end what a killed command has begun: if the user's branch
// had moved, the index follows; if not, nothing has happened.
func (r *Repo) recover(ctx context.Context, st *state) error {
	p := st.Pending
	if p == nil {
		return nil
	}
	r.indexEdit(p.Token).clear(p.Token)
	tip, err := r.git.resolve(ctx, "refs/heads/"+st.Branch)
	if err != nil {
		return err
	}
	branch, err := r.git.branch(ctx)
	if err != nil {
		return err
	}
	if tip == p.To && branch == st.Branch {
		changes, err := r.git.changes(ctx, p.From, p.To)
		if err != nil {
			return err
		}
		conflict, err := r.editIndex(ctx, p.Token, changes, func() error { return r.setBase(ctx, p.To) })
		if err != nil {
			return err
		}
		if conflict != nil && conflict.Kind == indexLocked {
			return asError(r.explain(ctx, conflict, st.Branch, p.From, p.To))
		}
		st.agree(p.To)
	}
	st.Pending = nil
	return r.save(*st)
}

// stale says that the files of the changes are all as they were before them:
// the work tree has been somewhere else since they were committed.
func (r *Repo) stale(changes []change, format int) bool {
	for _, c := range changes {
		switch id := blobID(r.root, c.path, format); {
		case c.deleted() && id == "", id != "" && id == c.newID:
			return false
		case c.oldMode == "000000" && id == "", id == c.oldID:
		default:
			return false // it was changed since, or git keeps it in another form
		}
	}
	return len(changes) > 0
}
