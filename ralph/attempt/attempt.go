// Package attempt keeps what a run has left apart from the next run: under a ref of the run's task, and no longer in the
// worktree. Uncommitted changes are a commit on top of those of the run.
package attempt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitrepo/filters"
	"github.com/docker-ralph/docker-ralph/wire/attemptref"
)

// gitTimeout bounds one git command: an agent can make it hang.
const gitTimeout = 5 * time.Minute

// stateFolder has the backlog and the logs. An agent can commit a file of this name, which would replace it.
const stateFolder = ".ralph"

// Worktree is the root of a worktree.
type Worktree string

// State is what a worktree has before a run: it is the user's.
type State struct {
	// Files are the paths with uncommitted changes. A repository in a subdirectory, which cannot be
	// committed, ends with a slash.
	Files []string
	// Operations are the merge and the like that are in progress.
	Operations []string
}

// State returns the state of the worktree.
func (w Worktree) State(ctx context.Context) (State, error) {
	changes, err := w.changes(ctx)
	if err != nil {
		return State{}, err
	}
	operations, err := w.operations(ctx)
	return State{slices.Sorted(maps.Keys(changes)), operations}, err
}

// changes returns by path whether a file has been deleted.
func (w Worktree) changes(ctx context.Context) (map[string]bool, error) {
	out, err := w.git(ctx, nil, "", "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all", "--", ".", ":(exclude)"+stateFolder)
	if err != nil {
		return nil, fmt.Errorf("listing uncommitted changes: %w", err)
	}
	deleted := map[string]bool{}
	for entry := range strings.SplitSeq(out, "\x00") {
		if len(entry) > 3 { // a file that only the index lacks comes again, as untracked
			deleted[entry[3:]] = w.deleted(entry[:2], entry[3:])
		}
	}
	return deleted, nil
}

// deleted reports whether a file with that state has been deleted. In a conflict, the state says what
// each side did, and git leaves the version of one of them.
func (w Worktree) deleted(state, path string) bool {
	if strings.Contains(state, "U") || state == "AA" || state == "DD" {
		_, err := os.Lstat(filepath.Join(string(w), path))
		return err != nil
	}
	return state[1] == 'D' || state == "D "
}

// Saved are uncommitted changes that were set aside.
type Saved struct {
	Ref   string // empty if there were none
	Files int
	Raw   bool // whether a filter of the user should have encoded something, as git-crypt does: it stays in the sandbox
}

// SetAside commits the uncommitted changes to a ref that the host does not fetch yet, undoes them in the worktree, and
// ends the operations in progress. What was there before is not touched, nor are files that change
// meanwhile: they may be the user's. Files of a filter such as git-crypt's stay, too: without
// the filter, their content is not what the repository has. After an error the worktree has all
// changes.
func (w Worktree) SetAside(ctx context.Context, id attemptref.ID, before State) (Saved, error) {
	changes, err := w.changes(ctx)
	if err != nil {
		return Saved{}, err
	}
	for _, path := range before.Files {
		delete(changes, path)
	}
	if err := w.populate(ctx, changes); err != nil {
		return Saved{}, err
	}
	maps.DeleteFunc(changes, func(path string, _ bool) bool { return strings.HasSuffix(path, "/") })
	if err := w.dropFiltered(ctx, changes); err != nil {
		return Saved{}, err
	}
	saved := Saved{Files: len(changes)}
	if len(changes) > 0 {
		if saved.Ref, saved.Raw, err = w.move(ctx, id, changes); err != nil {
			return Saved{}, fmt.Errorf("setting uncommitted changes aside: %w", err)
		}
	}
	return saved, w.quit(ctx, before.Operations)
}

// populate gives repositories in subdirectories an empty commit if they have none: "git add --all" fails otherwise, in all
// later runs, too.
func (w Worktree) populate(ctx context.Context, changes map[string]bool) error {
	for path := range changes {
		if !strings.HasSuffix(path, "/") {
			continue
		}
		nested := Worktree(filepath.Join(string(w), path))
		tree, head, err := nested.base(ctx)
		if err == nil && head == "" {
			var commit string
			if commit, err = nested.git(ctx, nil, "", "commit-tree", "--no-gpg-sign", "-m", "Empty", tree); err == nil {
				_, err = nested.git(ctx, nil, "", "update-ref", "HEAD", commit)
			}
		}
		if err != nil {
			return fmt.Errorf("adding a commit to repository %s: %w", path, err)
		}
	}
	return nil
}

// dropFiltered removes the files from changes that a configured filter changes on commit.
func (w Worktree) dropFiltered(ctx context.Context, changes map[string]bool) error {
	names, err := w.git(ctx, nil, "", "config", "--null", "--name-only", "--get-regexp", `^filter\..*\.(clean|process)$`)
	if gitrepo.SaysNo(err) || len(changes) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing git's filters: %w", err)
	}
	paths := strings.Join(slices.Collect(maps.Keys(changes)), "\x00") + "\x00"
	out, err := w.git(ctx, nil, paths, "check-attr", "-z", "--stdin", "filter")
	if err != nil {
		return fmt.Errorf("reading the attributes of uncommitted files: %w", err)
	}
	fields := strings.Split(out, "\x00") // path, attribute and value of each
	for i := 0; i+2 < len(fields); i += 3 {
		if strings.Contains("\x00"+names, "\x00filter."+fields[i+2]+".") {
			delete(changes, fields[i])
		}
	}
	return nil
}

// isRaw reports whether a commit or the one before has content that a filter should have encoded, by the attributes of
// either: the changes can take them away.
func (w Worktree) isRaw(ctx context.Context, ref, before string) (bool, error) {
	commit, err := w.git(ctx, nil, "", "rev-parse", "--verify", ref)
	if err != nil {
		return false, err
	}
	g := w.program()
	lacking, err := filters.Lacking(ctx, g)
	if err != nil {
		return false, err
	}
	changes, err := filters.Changes(ctx, g, []string{commit})
	if err != nil {
		return false, err
	}
	for _, at := range []string{commit, before} {
		if at == "" {
			continue
		}
		if raw, err := filters.Find(ctx, g, at, changes, lacking); err != nil || len(raw) > 0 {
			return true, err
		}
	}
	return false, nil
}

// operationFiles are what a git directory has during an operation, whose command has the option --quit.
var operationFiles = []struct{ operation, file string }{
	{"merge", "MERGE_HEAD"},
	{"cherry-pick", "CHERRY_PICK_HEAD"},
	{"cherry-pick", "sequencer"}, // between two commits
	{"revert", "REVERT_HEAD"},
	{"rebase", "rebase-merge"},
	{"rebase", "rebase-apply/rebasing"},
	{"am", "rebase-apply/applying"},
}

// operations returns those in progress.
func (w Worktree) operations(ctx context.Context) (found []string, err error) {
	dir, err := w.git(ctx, nil, "", "rev-parse", "--absolute-git-dir")
	if err != nil {
		return nil, fmt.Errorf("looking for a merge in progress: %w", err)
	}
	for _, o := range operationFiles {
		if _, err := os.Lstat(filepath.Join(dir, o.file)); err == nil {
			found = append(found, o.operation)
		}
	}
	return slices.Compact(found), nil
}

// quit ends the operations that a run has not completed: their files stay, and the next commit is
// an ordinary one.
func (w Worktree) quit(ctx context.Context, keep []string) error {
	found, err := w.operations(ctx)
	if err != nil {
		return err
	}
	for _, operation := range found {
		if slices.Contains(keep, operation) {
			continue
		}
		if _, err := w.git(ctx, nil, "", operation, "--quit"); err != nil {
			return fmt.Errorf("ending an unfinished %s: %w", operation, err)
		}
	}
	return nil
}

// move commits the changes to a ref, and checks out what the branch has instead. The index that
// it uses for that is not git's own: the user's may have staged changes.
func (w Worktree) move(ctx context.Context, id attemptref.ID, changes map[string]bool) (ref string, raw bool, err error) {
	temp, remove, err := filters.TempIndex(ctx, w.program()) // not in /tmp, which may be full
	if err != nil {
		return "", false, err
	}
	defer remove()
	index := []string{"GIT_INDEX_FILE=" + temp}
	base, head, err := w.base(ctx)
	if err != nil {
		return "", false, err
	}
	tree, err := w.write(ctx, index, base, changes)
	if err != nil {
		return "", false, err
	}
	if ref, err = w.commit(ctx, id, tree, head); err != nil {
		return "", false, err
	}
	if raw, err = w.isRaw(ctx, ref, head); err != nil {
		return "", false, err
	}

	// A file that has changed since is not overwritten: then this fails. The ref stays, in
	// case of a failure half-way.
	if _, err := w.git(ctx, index, "", "read-tree", "-m", "-u", "--no-sparse-checkout", tree, base); err != nil {
		return "", false, err
	}
	return ref, raw, w.unstage(ctx, base, head, changes)
}

// write writes a tree with the changes to base.
func (w Worktree) write(ctx context.Context, index []string, base string, changes map[string]bool) (tree string, err error) {
	var removed, added strings.Builder
	for path, deleted := range changes {
		if deleted {
			removed.WriteString(path + "\x00")
		} else {
			added.WriteString(path + "\x00")
		}
	}
	if _, err := w.git(ctx, index, "", "read-tree", base); err != nil {
		return "", err
	}
	if _, err := w.git(ctx, index, removed.String(), "update-index", "-z", "--force-remove", "--stdin"); err != nil {
		return "", err
	}
	if _, err := w.git(ctx, index, added.String(), "update-index", "-z", "--add", "--remove", "--replace", "--stdin"); err != nil {
		return "", err
	}
	return w.git(ctx, index, "", "write-tree")
}

// base returns the tree that is checked out, and its commit, or "" before the first one.
func (w Worktree) base(ctx context.Context) (tree, head string, err error) {
	head, err = w.git(ctx, nil, "", "rev-parse", "--verify", "-q", "HEAD^{commit}")
	if gitrepo.SaysNo(err) {
		tree, err = w.git(ctx, nil, "", "mktree")
		return tree, "", err
	}
	return head, head, err
}

// commit commits a tree to a new ref of the attempt.
func (w Worktree) commit(ctx context.Context, id attemptref.ID, tree, head string) (ref string, err error) {
	args := []string{"commit-tree", "--no-gpg-sign", "-m", "Uncommitted changes of task " + id.Task, tree}
	if head != "" {
		args = append(args, "-p", head)
	}
	commit, err := w.git(ctx, nil, "", args...)
	if err != nil {
		return "", err
	}
	return w.create(ctx, attemptref.Unfetched, id, commit)
}

// unstage resets paths in git's own index.
func (w Worktree) unstage(ctx context.Context, base, head string, changes map[string]bool) error {
	paths := strings.Join(slices.Collect(maps.Keys(changes)), "\x00") + "\x00"
	if head == "" {
		_, err := w.git(ctx, nil, paths, "update-index", "-z", "--force-remove", "--stdin")
		return err
	}
	_, err := w.git(ctx, nil, paths, "--literal-pathspecs", "reset", "-q", base, "--pathspec-from-file=-", "--pathspec-file-nul")
	return err
}

func (w Worktree) program() gitrepo.Git {
	return gitrepo.Git{
		Program: "git", Dir: string(w), Environ: gitrepo.Environ(os.Environ()),
		Config: []string{"core.safecrlf=false", "user.name=ralph", "user.email=ralph@localhost"},
	}
}

// git runs git in the worktree with more variables.
func (w Worktree) git(ctx context.Context, environ []string, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, gitTimeout, errors.New("git did not end"))
	defer cancel()
	g := w.program()
	g.Environ = append(g.Environ, environ...)
	return gitrepo.AtPipe(ctx, string(w), func(ctx context.Context) (string, error) {
		var stdout strings.Builder
		err := g.Stream(ctx, strings.NewReader(stdin), &stdout, args...)
		return strings.TrimSuffix(stdout.String(), "\n"), err
	})
}
