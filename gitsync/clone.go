package gitsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/gitsync/index"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// Progress is told of a pack that is sent to the sandbox, and how to estimate its size. It returns
// a writer to use, and a function to call at the end.
type Progress func(to io.Writer, size func() (int64, error)) (_ io.Writer, end func(error))

// WithProgress returns the repository with the progress of what it sends.
func (r *Repo) WithProgress(progress Progress) *Repo {
	with := *r
	with.progress = progress
	return &with
}

// pushScript moves the sandbox to where the user's repository is. Its arguments are the
// user's branch, the commits that the sandbox's index, if it is not HEAD, and the branch have to be at, and
// the commit that the branch is at. Its input are the updates of other refs, an
// empty line and, if its fifth argument is not empty, a pack. The branch moves last: a push that was
// interrupted is repeated. What the sandbox has not committed, and is in the way, becomes a stash.
const pushScript = plainGit + `set -e
updates=$(while IFS= read -r line && [ -n "$line" ]; do printf '%s\n' "$line"; done)
[ -z "$5" ] || git index-pack --stdin --fix-thin >/dev/null
printf '%s\n' "$updates" | sed '/^$/d' | git update-ref --stdin || :
if [ -z "$3" ]; then git read-tree --empty
else
	from=$2
	[ -n "$from" ] || from=$(git rev-parse -q --verify HEAD) || from=$(git hash-object -t tree /dev/null)
	git update-index -q --refresh || : # read-tree takes a file with another time for a changed one
	git read-tree -m -u "$from" "$3" 2>/dev/null || {
		` + stashCommand + `
		git read-tree --reset -u "$3"
	}
fi
[ -z "$3" ] || git update-ref -m 'ralph: from your branch' "refs/heads/$1" "$3" "$4"
git symbolic-ref HEAD "refs/heads/$1"
git update-index -q --refresh || :
`

const stashCommand = `git -c user.name=ralph -c user.email=ralph@localhost stash push -q --include-untracked -m 'uncommitted changes'`

// checkoutScript checks out all files of a clone's index.
const checkoutScript = plainGit + `git ls-files -v | sed -n 's/^S //p' | git update-index --no-skip-worktree --stdin
git checkout-index -q -f -u -a
`

// refillFiles checks out the files of a clone if its working tree was removed.
func (r *Repo) refillFiles(ctx context.Context, st *state, sh Shell) error {
	if !st.Emptied {
		return nil
	}
	if err := sh(ctx, checkoutScript, nil, nil, io.Discard); err != nil {
		return fmt.Errorf("checking out the files of sandbox %s: %w", r.name, err)
	}
	st.Emptied = false
	return r.save(*st)
}

// stashScript saves what is not committed, if there is anything.
const stashScript = plainGit + `git rev-parse -q --verify HEAD >/dev/null || exit 0
[ -z "$(git status --porcelain --ignore-submodules=all)" ] || ` + stashCommand + `
`

// restoreScript completes a git directory that was restored: its input is that of
// pushScript; files stay as they are. Its argument is the branch.
const restoreScript = plainGit + `set -e
updates=$(while IFS= read -r line && [ -n "$line" ]; do printf '%s\n' "$line"; done)
git index-pack --stdin --fix-thin >/dev/null
printf '%s\n' "$updates" | git update-ref --stdin
git symbolic-ref HEAD "refs/heads/$1"
if git rev-parse -q --verify HEAD >/dev/null; then git read-tree HEAD; fi
git update-index -q --refresh || :
`

// SaveUncommitted stashes what is not committed in a clone, so that a fetch gets it: also
// what was changed in files that the user has sent, and is not in commits.
func (r *Repo) SaveUncommitted(ctx context.Context, sh Shell) error {
	r, st, unlock, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	sh = r.unblocked(sh)
	if err := r.removeChanges(ctx, &st, sh); err != nil {
		return err
	}
	if err := sh(ctx, stashScript, nil, nil, io.Discard); err != nil {
		return fmt.Errorf("saving uncommitted changes of sandbox %s: %w", r.name, err)
	}
	return nil
}

// sendPush moves the sandbox to where the user's repository is.
func (r *Repo) sendPush(ctx context.Context, sh Shell, st *state, branch, index, tip, old, updates string) error {
	wanted := []string{tip}
	for line := range strings.Lines(updates) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "update" {
			wanted = append(wanted, f[2])
		}
	}
	objects, err := r.pack(ctx, st, wanted)
	if err != nil {
		return err
	}
	l := r.newRelay(ctx, objects.revs)
	if objects, err = r.sendParts(ctx, sh, st, objects, wanted, l); err == nil {
		err = r.sendOver(ctx, sh, pushScript, []string{branch, index, tip, old, objects.what()}, updates, objects, l)
	}
	l.end(err)
	return err
}

// partSize is about how much of a large pack is sent before the sandbox has it for good: a push that
// was cut continues there.
const partSize = 256 << 20

// partScript receives a pack; see pushScript.
const partScript = plainGit + `read -r none; git index-pack --stdin --fix-thin >/dev/null`

// sendParts sends all but the last part of a pack, which it returns.
func (r *Repo) sendParts(ctx context.Context, sh Shell, st *state, objects pack, wanted []string, l *relay) (pack, error) {
	parts, err := r.git.Parts(ctx, objects.revs, r.partSize)
	if err != nil || len(parts) == 0 {
		return objects, err
	}
	for _, ends := range parts {
		p, err := r.pack(ctx, st, ends)
		p.part = true
		if err == nil {
			err = r.sendOver(ctx, sh, partScript, nil, "", p, l)
		}
		if err != nil {
			return pack{}, err
		}
		st.Parts = ends
		if err := r.save(*st); err != nil {
			return pack{}, err
		}
	}
	objects, err = r.pack(ctx, st, wanted)
	objects.part = true
	return objects, err
}

// relay writes packs to the sandbox, one after the other, with one progress.
type relay struct {
	io.Writer           // for the current pack
	to        io.Writer // with the progress
	end       func(error)
}

func (r *Repo) newRelay(ctx context.Context, revs string) *relay {
	l := &relay{end: func(error) {}}
	l.to = l
	if r.progress != nil {
		l.to, l.end = r.progress(l, func() (int64, error) { return r.git.PackSize(ctx, revs) })
	}
	return l
}

// pack are objects that the sandbox lacks; part of a large transfer or all of them.
type pack struct {
	revs string
	part bool
}

func (p pack) what() string {
	if p.revs == "" {
		return ""
	}
	return "pack"
}

// pack returns the objects of commits that the sandbox lacks.
func (r *Repo) pack(ctx context.Context, st *state, wanted []string) (pack, error) {
	known := map[string]bool{st.Synced: true}
	for _, refs := range []map[string]string{st.Pushed, st.Tips} {
		for _, oid := range refs {
			known[oid] = true
		}
	}
	for _, oid := range st.Parts {
		known[oid] = true
	}
	delete(known, "")
	wanted = slices.Compact(slices.Sorted(slices.Values(wanted)))
	wanted = slices.DeleteFunc(wanted, func(oid string) bool { return oid == "" || known[oid] })
	if len(wanted) == 0 {
		return pack{}, nil
	}
	var input strings.Builder
	for oid := range known {
		_, _ = fmt.Fprintln(&input, oid)
	}
	out, err := r.git.Output(ctx, strings.NewReader(input.String()), "cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return pack{}, fmt.Errorf("searching for the sandbox's commits: %w", err)
	}
	revs := strings.Join(wanted, "\n") + "\n"
	for line := range strings.Lines(string(out)) {
		if oid, kind, _ := strings.Cut(strings.TrimSpace(line), " "); kind != "missing" { // removed by gc
			revs += "^" + oid + "\n"
		}
	}
	return pack{revs: revs}, nil
}

// send runs a script with updates of refs and a pack as its input.
func (r *Repo) send(ctx context.Context, sh Shell, script string, args []string, updates string, p pack) error {
	l := r.newRelay(ctx, p.revs)
	err := r.sendOver(ctx, sh, script, args, updates, p, l)
	l.end(err)
	return err
}

// sendOver is send with a relay.
func (r *Repo) sendOver(ctx context.Context, sh Shell, script string, args []string, updates string, p pack, l *relay) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pr, pw := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		_, err := io.WriteString(pw, updates+"\n")
		if err == nil && p.revs != "" {
			l.Writer = pw
			err = r.git.Pack(ctx, p.revs, l.to, p.part)
		}
		_ = pw.CloseWithError(err)
		packed <- err
	}()
	err := sh(ctx, script, args, pr, io.Discard)
	if err != nil {
		cancel()
	}
	_ = pr.CloseWithError(io.ErrClosedPipe)
	if packErr := <-packed; packErr != nil && err == nil {
		err = packErr
	}
	return err
}

// restoreObjects sends the objects of refs to a git directory that was restored.
func (r *Repo) restoreObjects(ctx context.Context, sh Shell, branch string, refs map[string]string) error {
	var updates, revs strings.Builder
	for ref, oid := range refs {
		_, _ = fmt.Fprintf(&updates, "update %s %s\n", ref, oid)
		_, _ = fmt.Fprintln(&revs, oid)
	}
	if revs.Len() == 0 {
		return nil
	}
	return r.send(ctx, sh, restoreScript, []string{branch}, updates.String(), pack{revs: revs.String()})
}

// checkoutTimeout bounds checking out the sandbox's commits.
const checkoutTimeout = 10 * time.Minute

// overwritten finds the file in a message of git read-tree.
var overwritten = lazyregexp.New(`(?m)^error: (?:Entry|Updating|Untracked working tree file) '(.+)' (?:not uptodate|would )`)

// inTheWay is the conflict with a file of the user's that would be overwritten.
func (r *Repo) inTheWay(ctx context.Context, path string) *Conflict {
	ignored, err := r.git.InWorktree(ctx, "ls-files", "--others", "--ignored", "--exclude-standard", "--", path)
	return &Conflict{Kind: fileInTheWay, Detail: path, Ignored: err == nil && len(ignored) > 0}
}

// compare returns the changes whose files have their new content before a checkout, and the conflict with what is in the
// way of the others. applied are files by their content that the user's worktree has from the sandbox.
func (r *Repo) compare(ctx context.Context, changes []hostgit.Change, format int, applied map[string]string) (same []hostgit.Change, conflict *Conflict, err error) {
	entries, err := r.git.Index(ctx)
	if err != nil {
		return nil, nil, err
	}
	same, obstacle := r.git.Compare(entries, changes, format, func(c hostgit.Change) bool { return applied[c.Path] == c.NewID })
	switch {
	case obstacle == nil:
		return same, nil, nil
	case obstacle.Repository:
		return nil, &Conflict{Kind: fileInTheWay, Detail: obstacle.Path, Repository: true}, nil
	}
	return nil, r.inTheWay(ctx, obstacle.Path), nil
}

// checkOut brings the user's files and a copy of the index from one commit to another, after [Repo.compare]. What is in
// the way is a conflict, and nothing has changed then.
func (r *Repo) checkOut(ctx context.Context, edit index.Edit, same []hostgit.Change, from, to string) (conflict *Conflict, undo func() error, err error) {
	g := edit.Git(r.git)
	g.Timeout = checkoutTimeout
	if from == "" {
		from = hostgit.EmptyTree(len(to))
	}
	move := func(same []hostgit.Change, from, to string) error {
		if len(same) > 0 {
			if _, err := g.Output(ctx, strings.NewReader(hostgit.IndexInfo(same)), "update-index", "-z", "--add", "--replace", "--index-info"); err != nil {
				return err
			}
		}
		if _, err := g.InWorktree(ctx, "update-index", "-q", "--refresh"); err != nil && !gitrepo.SaysNo(err) {
			return err
		}
		_, err := g.InWorktree(ctx, "read-tree", "-m", "-u", from, to)
		return err
	}
	if err = move(same, from, to); err == nil {
		return nil, func() error { return move(hostgit.Reversed(same), to, from) }, nil
	}
	if failed, is := errors.AsType[*gitrepo.GitError](err); is {
		if m := overwritten().FindStringSubmatch(failed.Stderr); m != nil {
			return r.inTheWay(ctx, m[1]), nil, nil
		}
	}
	return nil, nil, fmt.Errorf("checking out the sandbox's commits: %w", err)
}
