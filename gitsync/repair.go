package gitsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/archive"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/gitsync/listing"
	"github.com/docker-ralph/docker-ralph/gitsync/refname"
	"github.com/docker-ralph/docker-ralph/wire/attemptref"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Exit codes of scripts: the git directory is broken, as stderr says; and git
// was killed, which proves nothing.
const (
	brokenCode = 76
	killedCode = 75
)

// checkScript ends a script if its git could not work: an agent can remove or overwrite
// anything in the git directory. A git that could not be started, because the sandbox has
// reached its process limit, proves nothing.
const checkScript = `works() { git "$@" >/dev/null 2>&1; code=$?; case $code in 0) ;; 1|128) return 1 ;; *) echo "git $1: exit code $code" >&2; exit 75 ;; esac; }
works rev-parse --git-dir || broken 'not a git directory'
inside=$(git rev-parse --is-inside-work-tree --show-prefix 2>/dev/null); case $? in 0|1|128) ;; *) exit 75 ;; esac
[ "$inside" = true ] || broken 'not that of the working tree' # by core.bare or core.worktree
works ls-files || broken 'unreadable index'
works for-each-ref --count=1 --format='%(refname)' || broken 'unreadable refs'
tip=$(git rev-parse -q --verify HEAD); case $? in 0) ;; 1|128) tip= ;; *) exit 75 ;; esac
[ -z "$tip" ] || works cat-file -e "$tip^{tree}" || broken 'the current commit is missing'
`

// BrokenError says that the git directory of a sandbox is unusable. [Repo.Repair]
// restores it.
type BrokenError struct{ Sandbox, Why string }

func (e *BrokenError) Error() string {
	return fmt.Sprintf("the git directory of sandbox %s is broken: %s", e.Sandbox, e.Why)
}

// Permanent reports whether a sync fails because of the content of the sandbox's git
// directory, so that the next one fails too.
func Permanent(err error) bool {
	if errors.Is(err, syscall.ENOSPC) {
		return false
	}
	if failed, ok := errors.AsType[*ScriptError](err); ok {
		// sh ends with 2 or 126 if it cannot start git.
		return failed.Code == 1 || failed.Code > 2 && failed.Code <= 128 && failed.Code != killedCode && failed.Code != 126
	}
	_, broken := errors.AsType[*BrokenError](err)
	_, refused := errors.AsType[*RefusedError](err)
	return broken || refused
}

// asBroken makes a [BrokenError] of a script's finding.
func (r *Repo) asBroken(err error) error {
	if failed, ok := errors.AsType[*ScriptError](err); ok && failed.Code == brokenCode {
		return &BrokenError{Sandbox: r.name, Why: termsafe.Line(failed.Stderr)}
	}
	return err
}

// Repair restores the sandbox's git directory from the user's repository, after a fetch
// of what it still contains. lost says why something could not be fetched; the former
// content is in [LostFolder] then. Nothing may run in the sandbox that commits.
func (r *Repo) Repair(ctx context.Context, sh Shell) (res Result, lost, err error) {
	r, st, unlock, err := r.open(ctx)
	if err != nil {
		return Result{}, nil, err
	}
	defer unlock()
	if lost, err = r.salvage(ctx, &st, sh, &res); err != nil {
		return Result{}, nil, err
	}
	if err := r.restore(ctx, &st, sh); err != nil {
		return Result{}, nil, fmt.Errorf("restoring the git directory of sandbox %s: %w", r.name, err)
	}
	st.Restoring = nil
	return res, lost, r.save(st)
}

// hasCommit reports whether the user's repository has a commit. Its ID can be an agent's.
func (r *Repo) hasCommit(ctx context.Context, commit string) (bool, error) {
	if !hostgit.IsObjectID(commit) {
		return false, nil
	}
	_, err := r.git.Output(ctx, nil, "cat-file", "-e", commit)
	if gitrepo.SaysNo(err) {
		return false, nil
	}
	return err == nil, err
}

// restoring is saved before a git directory is replaced, and removed after that: an
// interrupted repair starts there again.
type restoring struct {
	// Lost says why something could not be fetched, and is in [LostFolder].
	Lost string `json:"lost,omitempty"`
}

// salvage fetches what a git directory still contains.
func (r *Repo) salvage(ctx context.Context, st *state, sh Shell, res *Result) (lost, err error) {
	if st.Restoring == nil {
		r.repairing = true
		if lost = r.refill(ctx, st, sh, salvageScript, "HEAD.ralph"); lost == nil {
			*res, lost = r.fetch(ctx, st, sh, nil, true)
		}
		if lost != nil && !Permanent(lost) {
			return nil, lost
		}
		st.Restoring, st.Parts = &restoring{}, nil
		if lost != nil {
			st.Restoring.Lost = lost.Error()
			err = sh(ctx, discardBackupScript, []string{r.folder}, nil, io.Discard)
		}
		if err == nil {
			err = r.save(*st)
		}
	} else if st.Restoring.Lost != "" {
		lost = errors.New(st.Restoring.Lost)
	}
	return lost, err
}

// restore replaces a git directory.
func (r *Repo) restore(ctx context.Context, st *state, sh Shell) error {
	refs, err := r.restorable(ctx, *st)
	if err != nil {
		return err
	}
	script := refillScript
	if st.Restoring.Lost != "" {
		script = backupScript + script
	}
	if err := r.refill(ctx, st, sh, script, "HEAD"); err != nil {
		return err
	}
	return r.restoreObjects(ctx, sh, st.Branch, refs)
}

// undoRewinds corrects a listing of a broken git directory: old packed refs appear when
// the newer loose ones are removed.
func (r *Repo) undoRewinds(ctx context.Context, l listing.Listing, known map[string]string) error {
	if !r.repairing {
		return nil
	}
	for ref, oid := range l.Moved(known) {
		if known[ref] == "" {
			continue
		}
		if rewound, err := r.git.Contains(ctx, known[ref], oid); err != nil {
			return err
		} else if rewound {
			l.Refs[ref] = known[ref]
		}
	}
	return nil
}

// restorable returns the last known refs of the sandbox whose commits are in the user's
// repository; the user's if none are known.
func (r *Repo) restorable(ctx context.Context, st state) (map[string]string, error) {
	if len(st.Tips) == 0 {
		refs, _, err := r.git.Refs(ctx, r.base())
		if err != nil {
			return nil, err
		}
		return r.pushable(ctx, &st, refs, st.Branch, false)
	}
	out, err := r.git.Output(ctx, strings.NewReader(strings.Join(slices.Collect(maps.Values(st.Tips)), "\n")+"\n"), "cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return nil, fmt.Errorf("searching for the sandbox's commits: %w", err)
	}
	missing := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		oid, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		missing[oid] = kind == "missing"
	}
	refs := maps.Clone(st.Tips)
	maps.DeleteFunc(refs, func(ref, oid string) bool {
		standard := strings.HasPrefix(ref, "refs/heads/") || strings.HasPrefix(ref, "refs/tags/") || strings.HasPrefix(ref, "refs/remotes/")
		return missing[oid] || !standard
	})
	return refs, r.restoreAccepted(ctx, st, refs)
}

// restoreAccepted restores the branch of a loop at the accepted commit, unless the last known one contains it: a loop can
// only set aside what it has on top of that. The user's repository keeps other commits.
func (r *Repo) restoreAccepted(ctx context.Context, st state, refs map[string]string) error {
	own, accepted := "refs/heads/"+st.Branch, cmp.Or(st.Accepted, st.Synced)
	if !st.Loop || accepted == "" {
		return nil
	}
	if tip, known := refs[own]; known {
		if follows, err := r.git.Contains(ctx, tip, accepted); err != nil || follows {
			return err
		}
		if err := r.updateRefs(ctx, fmt.Sprintf("update %s/%s%s %s\n", r.Prefix(), refname.Kept, tip, tip)); err != nil {
			return err
		}
	}
	refs[own] = accepted
	return nil
}

// LostFolder is where a restored git directory has its former content, if that could not
// be fetched.
const LostFolder = "ralph-lost"

// The scripts get the git directory as an argument and an archive as input. The first
// replaces the configuration and keeps refs and objects; the second replaces everything else;
// the last, run before it, moves to LostFolder what an interrupted one has not moved. The record of a run stays: the
// working tree has its changes.
const (
	others        = `! -name ` + LostFolder + ` ! -name ` + attemptref.BegunFile
	salvageScript = `cd "$1" || exit
chmod -R u+rwX . 2>/dev/null
rm -rf config index commondir gitdir shallow info objects/info/alternates
[ -d refs ] || rm -rf refs
[ -d objects ] || rm -rf objects
find . '(' -name '*.lock' -o -type p ')' -exec rm -f {} +
` + untarScript + `git --git-dir=. rev-parse --git-dir >/dev/null 2>&1 || { rm -rf HEAD && mv HEAD.ralph HEAD; }
rm -f HEAD.ralph # used if HEAD is broken
`
	refillScript = `cd "$1" || exit
chmod -R u+rwX . 2>/dev/null
find . -mindepth 1 -maxdepth 1 ` + others + ` -exec rm -rf {} + || exit
` + untarScript
	discardBackupScript = `cd "$1" && rm -rf ` + LostFolder
	backupScript        = `cd "$1" && mkdir -p ` + LostFolder + ` || exit
find . -mindepth 1 -maxdepth 1 ` + others + ` -exec mv -n {} ` + LostFolder + ` \;
`
	untarScript = `tar -x -o -f - -C .. || exit
`
)

// relinkScript comes before them: in a microVM, .git is a link to the git directory, which an agent can replace.
const relinkScript = `chmod u+rwx "$1" 2>/dev/null
[ .git -ef "$1" ] || {
	if [ -e .git ]; then mkdir -p "$1/` + LostFolder + `" && mv .git "$(mktemp -d "$1/` + LostFolder + `/XXXXXX")" || exit; fi
	ln -sfn "$1" .git || exit
}
`

// refill runs a script with a git directory without commits as its input, whose HEAD has the name head.
func (r *Repo) refill(ctx context.Context, st *state, sh Shell, script, head string) error {
	pr, pw := io.Pipe()
	filled := make(chan error, 1)
	go func() {
		a, err := archive.New(pw, path.Base(Folder), "0:0")
		if err == nil {
			err = r.fillFiles(ctx, a, st.Branch)
		}
		if err == nil {
			a.File(head, []byte("ref: refs/heads/"+st.Branch+"\n"))
			err = a.Close()
		}
		_ = pw.CloseWithError(err)
		filled <- err
	}()
	err := sh(ctx, relinkScript+script, []string{r.folder}, pr, io.Discard)
	_ = pr.CloseWithError(io.ErrClosedPipe)
	if fillErr := <-filled; fillErr != nil && !errors.Is(fillErr, io.ErrClosedPipe) {
		return fillErr
	}
	return err
}
