package gitsync

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// brokenCode is the exit code of a script that finds the sandbox's git directory
// broken; it says on stderr what of it.
const brokenCode = 76

// soundScript ends a script if its git could not work: an agent can remove or
// overwrite anything in the directory. A git that was killed, for want of memory
// say, proves nothing.
const soundScript = `broken() { printf '%s\n' "$1" >&2; exit 76; }
says() { git "$@" >/dev/null 2>&1; code=$?; case $code in 0) ;; 1|128) return 1 ;; *) echo "git $1: exit code $code" >&2; exit 75 ;; esac; }
says rev-parse --git-dir || broken 'it is no git directory any more'
says ls-files || broken 'its index cannot be read'
[ -s "$(git rev-parse --git-path objects/info/alternates)" ] || broken 'it no longer finds your objects'
tip=$(git rev-parse -q --verify HEAD) || tip=
[ -z "$tip" ] || says cat-file -e "$tip^{tree}" || broken 'the commit that is checked out is missing'
`

// BrokenError says that the git directory of a sandbox does not work any more.
// [Repo.Repair] restores it.
type BrokenError struct{ Sandbox, Why string }

func (e *BrokenError) Error() string {
	return fmt.Sprintf("the git directory of the sandbox %s is broken: %s", e.Sandbox, e.Why)
}

// Lasting says that a sync fails because of what is in the sandbox's git directory,
// and not for something that may pass: the next one would fail as well.
func Lasting(err error) bool {
	if errors.Is(err, syscall.ENOSPC) {
		return false
	}
	if failed, ok := errors.AsType[*ScriptError](err); ok {
		// sh ends with 2 if it cannot start git, soundScript with 75.
		return failed.Code == 1 || failed.Code > 2 && failed.Code < 126 && failed.Code != 75 || failed.Code == 127 || failed.Code == 128
	}
	_, broken := errors.AsType[*BrokenError](err)
	_, refused := errors.AsType[*RefusedError](err)
	return broken || refused
}

// broken makes a BrokenError of a script's that says so.
func (r *Repo) broken(err error) error {
	if failed, ok := errors.AsType[*ScriptError](err); ok && failed.Code == brokenCode {
		return &BrokenError{Sandbox: r.name, Why: termsafe.Line(failed.Words)}
	}
	return err
}

// Repair restores the sandbox's git directory from the user's repository: its refs
// are put back to where they were fetched last, which is below [Repo.Prefix].
// What can still be fetched is fetched before; lost says why something could not
// be, and is nil if nothing was lost; what there was is in the folder [LostFolder]
// of the directory then. Nothing may run in the sandbox that commits.
func (r *Repo) Repair(ctx context.Context, sh Shell) (res Result, lost, err error) {
	own, st, unlock, err := r.open(ctx)
	if err != nil {
		return Result{}, nil, err
	}
	defer unlock()
	own.salvaging = true
	if lost = own.refill(ctx, &st, sh, salvageScript, nil); lost == nil {
		res, lost = own.out(ctx, &st, sh, nil)
	}
	if lost != nil && !Lasting(lost) {
		return Result{}, nil, lost
	}
	refs, err := own.restorable(ctx, st)
	if err != nil {
		return Result{}, nil, err
	}
	script := refillScript
	if lost != nil {
		script = keepScript + script
	}
	if err := own.refill(ctx, &st, sh, script, refs); err != nil {
		return Result{}, nil, fmt.Errorf("restoring the git directory of the sandbox %s: %w", r.name, err)
	}
	return res, lost, nil
}

// forward drops from a listing what a broken git directory has moved back: packed
// refs of long ago appear when the younger ones are removed.
func (r *Repo) forward(ctx context.Context, l listing, known map[string]string) error {
	for ref, oid := range l.moved(known) {
		if known[ref] == "" {
			continue
		}
		if back, err := r.git.contains(ctx, known[ref], oid); err != nil {
			return err
		} else if back {
			l.refs[ref] = known[ref]
		}
	}
	return nil
}

// restorable are the refs that the sandbox had, as far as their commits are in the
// user's repository; the user's if it is not known.
func (r *Repo) restorable(ctx context.Context, st state) (map[string]string, error) {
	if len(st.Tips) == 0 {
		return r.git.refs(ctx)
	}
	out, err := r.git.run(ctx, strings.NewReader(strings.Join(slices.Collect(maps.Values(st.Tips)), "\n")+"\n"), "cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return nil, fmt.Errorf("looking for the sandbox's commits: %w", err)
	}
	there := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		oid, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		there[oid] = kind != "missing"
	}
	refs := map[string]string{}
	for ref, oid := range st.Tips {
		for _, prefix := range []string{"refs/heads/", "refs/tags/", "refs/remotes/"} {
			if there[oid] && strings.HasPrefix(ref, prefix) {
				refs[ref] = oid
			}
		}
	}
	return refs, nil
}

// LostFolder is where a git directory that was restored has what it had before, if
// that could not be fetched.
const LostFolder = "ralph-lost"

// The scripts get the git directory as an argument and an archive as input. The
// first replaces what says how git works there, and leaves refs and objects; the
// second replaces everything, and the third keeps that.
const (
	salvageScript = `cd "$1" || exit
chmod -R u+rwX . 2>/dev/null
rm -rf config index commondir gitdir shallow info objects/info/alternates
[ -d refs ] || rm -rf refs
[ -d objects ] || rm -rf objects
find . -name '*.lock' -exec rm -f {} +
` + untarScript + `git --git-dir=. rev-parse --git-dir >/dev/null 2>&1 || { rm -rf HEAD && mv HEAD.ralph HEAD; }
rm -f HEAD.ralph
`
	refillScript = `cd "$1" || exit
chmod -R u+rwX . 2>/dev/null
find . -mindepth 1 -maxdepth 1 ! -name ` + LostFolder + ` -exec rm -rf {} + || exit
` + untarScript
	keepScript = `cd "$1" && rm -rf ` + LostFolder + ` && mkdir ` + LostFolder + ` || exit
find . -mindepth 1 -maxdepth 1 ! -name ` + LostFolder + ` -exec mv {} ` + LostFolder + ` \;
`
	untarScript = `tar -x -o -f - -C ..
`
)

// refill has a script unpack a git directory in the sandbox. Without refs, it is
// only what git needs beside refs, objects and an index.
func (r *Repo) refill(ctx context.Context, st *state, sh Shell, script string, refs map[string]string) error {
	pr, pw := io.Pipe()
	filled := make(chan error, 1)
	go func() {
		a := &archive{w: tar.NewWriter(pw)}
		err := r.fillFiles(ctx, a, st.Branch, refs)
		if err == nil {
			name := "HEAD"
			if refs == nil {
				name = "HEAD.ralph" // for a HEAD that leads nowhere
			}
			a.file(name, []byte("ref: refs/heads/"+st.Branch+"\n"))
			err = a.close()
		}
		_ = pw.CloseWithError(err)
		filled <- err
	}()
	err := sh(ctx, script, []string{r.folder}, pr, io.Discard)
	_ = pr.CloseWithError(io.ErrClosedPipe)
	if fillErr := <-filled; fillErr != nil && !errors.Is(fillErr, io.ErrClosedPipe) {
		return fillErr
	}
	return err
}
