package gitsync

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/docker-ralph/docker-ralph/gitsync/listing"
)

// plainGit keeps an agent's git settings, and filters such as Git LFS, from breaking a
// script. It is not a security measure: the agent controls everything in the sandbox.
const plainGit = `filters=$(command git config --name-only --get-regexp '^filter\..*\.(clean|smudge|process|required)$' 2>/dev/null)
git() {
	for f in $filters; do case $f in *.required) set -- -c "$f=false" "$@" ;; *) set -- -c "$f=" "$@" ;; esac; done
	command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.pager=cat "$@"
}
`

// healScript makes a git directory in which no process works usable again: it grants the permissions that an agent has
// removed, and removes the locks and incomplete packs of a killed git. A named pipe would block the first git.
const healScript = `broken() { printf '%s\n' "$1" >&2; exit 76; }
if [ -n "$3" ]; then
	pipe=$(find "$3" -type d ! -perm -700 -exec chmod u+rwx {} ';' \
		-o '(' -name '*.lock' ! -path '*/objects/*' -o -type f -name 'tmp_*' -path '*/objects/*' ')' -exec rm -f {} ';' \
		-o -type f ! -perm -600 ! -path '*/objects/*' -exec chmod u+rw {} ';' -o -type f ! -perm -400 -exec chmod u+r {} ';' \
		-o -type p -print 2>/dev/null | head -n 1)
	[ -z "$pipe" ] || broken "named pipe ${pipe#"$3"/}"
fi
`

// fetchScript lists the sandbox's refs and packs the commits that are new. Its input are
// commits that the host has; its arguments are commits to leave out; the only one to
// pack, if not all; the git directory if no process runs in the sandbox; and whether a push follows. Only the latest
// stash has a ref, the reflog knows the others; git bundle refuses commits without a ref. Packing reads .gitattributes of
// the current directory, which in the worktree may be a named pipe.
const fetchScript = healScript + plainGit + checkScript + `[ -z "$4" ] || [ -z "$tip" ] || [ -e "$3/index" ] || broken 'missing index' # by a repair that was killed
refs=$(git for-each-ref --format='%(objectname) %(refname)' refs/heads refs/stash) || exit
[ -z "$refs" ] || printf '%s\n' "$refs"
stashes=
case $refs in *' refs/stash') stashes=$(git rev-list --walk-reflogs refs/stash) || exit ;; esac
[ -z "$stashes" ] || printf '%s\n' "$stashes" | sed 's,.*,& refs/stash@&,'
ref=$(git symbolic-ref -q HEAD) || ref=
head=
[ -n "$ref" ] || head=$(git rev-parse -q --verify HEAD) || head=
printf '%s HEAD %s\n\n' "${head:--}" "$ref"
ends=$(printf '%s\n' "$refs" "$stashes" "$head" | sed '/^$/d; s/ .*//' | grep -vxF -e "$1"; sed 's/^/^/')
[ -z "$2" ] || ends=$2
new=$(printf '%s\n' "$ends" | git rev-list --max-count=1 --ignore-missing --stdin) || exit
[ -n "$new" ] || exit 0
GIT_DIR=$(git rev-parse --absolute-git-dir) && export GIT_DIR && cd "$GIT_DIR" || exit
printf '# v2 git bundle\n\n'
printf '%s\n' "$ends" | git rev-list --objects --ignore-missing --stdin | git pack-objects -q --stdout --delta-base-offset
`

// request is what a sandbox is asked for: its new commits beyond those known, without
// some, or only those of one commit.
type request struct {
	known, without []string
	only           string
}

// receiveObjects adds the objects of those refs of the sandbox that wanted returns. The
// listing is returned with an [invalidError] too.
func (r *Repo) receiveObjects(ctx context.Context, st *state, sh Shell, req request, wanted func(listing.Listing) map[string]string) (listing.Listing, error) {
	pack := inGit(r.stateDir, r.name, "pack")
	if err := os.MkdirAll(filepath.Dir(pack), 0o700); err != nil {
		return listing.Listing{}, fmt.Errorf("fetching from sandbox %s: %w", r.name, err)
	}
	defer func() { _ = os.Remove(pack) }()
	l, err := r.request(ctx, sh, req, pack)
	if err != nil {
		return l, err
	}
	// What gets a ref is verified, whatever the bundle claims to contain.
	tips := slices.Compact(slices.Sorted(maps.Values(wanted(l))))
	if !l.Bundle {
		if len(tips) == 0 {
			return l, nil
		}
		pack = ""
	}
	return l, r.admit(ctx, st, pack, tips)
}

// request gets the refs of the sandbox, and a pack of its new commits.
func (r *Repo) request(ctx context.Context, sh Shell, req request, pack string) (listing.Listing, error) {
	input := strings.Join(req.known, "\n")
	if input != "" {
		input += "\n"
	}
	idle, push := "", ""
	if r.idle {
		idle = r.folder
	}
	if r.pushes {
		push = "push"
	}
	pr, pw := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := sh(ctx, fetchScript, []string{strings.Join(req.without, "\n"), req.only, idle, push}, strings.NewReader(input), pw)
		_ = pw.CloseWithError(err)
		ended <- err
	}()
	buffered := bufio.NewReader(pr)
	l, err := listing.Read(buffered)
	listed := err == nil
	if listed && l.Bundle {
		err = listing.WritePack(pack, buffered)
	}
	_ = pr.CloseWithError(err)
	shErr := <-ended
	completed := shErr == nil || errors.Is(shErr, err) // or would have, but for err
	if err == nil || !completed && !errors.Is(shErr, io.ErrClosedPipe) {
		err = shErr
	}
	if err == nil {
		return l, nil
	}
	_, failed := errors.AsType[*ScriptError](err)
	err = fmt.Errorf("fetching from sandbox %s: %w", r.name, err)
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return listing.Listing{}, err
	case listed && (failed || errors.Is(err, listing.ErrTooLarge)):
		return l, &invalidError{err} // maybe of some refs only
	case !listed && !failed && ctx.Err() == nil && !errors.Is(err, io.ErrUnexpectedEOF) && completed:
		return listing.Listing{}, &BrokenError{Sandbox: r.name, Why: err.Error()}
	}
	return listing.Listing{}, r.asBroken(err)
}
