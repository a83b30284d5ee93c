package gitsync

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Limits of what comes out of a sandbox.
const (
	maxListed = 8 << 20 // bytes of names
	maxMoved  = 1000    // refs that are fetched at once
	maxBundle = 8 << 30 // bytes of objects
)

// listing is what the sandbox says that its refs are.
type listing struct {
	refs   map[string]string // branches, stashes, and HEAD if it is detached
	head   string            // the ref of HEAD; empty if it is detached
	bundle bool              // whether a bundle follows
}

// moved returns the refs that differ from those known.
func (l listing) moved(known map[string]string) map[string]string {
	moved := map[string]string{}
	for ref, oid := range l.refs {
		if known[ref] != oid {
			moved[ref] = oid
		}
	}
	return moved
}

// remove removes refs that were refused, and have not moved since.
func (l listing) remove(refused map[string]refused) {
	for ref, bad := range refused {
		if l.refs[ref] == bad.ID {
			delete(l.refs, ref)
		}
	}
}

// plainGit keeps an agent's git settings from breaking a script. It is not a security
// measure: the agent controls everything in the sandbox.
const plainGit = `git() { command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.pager=cat "$@"; }
`

// fetchScript lists the sandbox's refs and packs the commits that are new. Its input are
// commits that the host has; its arguments are commits to leave out; the only one to
// pack, if not all; the git directory if no process runs in the sandbox, so that a
// lock there is of a killed git; and whether it is a clone, without alternates. Only the latest stash has a ref, the reflog knows the
// others; git bundle refuses commits without a ref. Packing reads .gitattributes of the
// current directory, which in the worktree may be a named pipe.
const fetchScript = plainGit + `clone=$4
if [ -n "$3" ]; then find "$3" -name '*.lock' -not -path '*/objects/*' -exec rm -f {} +; fi
` + checkScript + `[ -z "$3" ] || [ -z "$tip" ] || [ -e "$3/index" ] || broken 'missing index' # by a repair that was killed
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

// readListing reads the output of fetchScript up to the objects. An agent controls all
// of it.
func readListing(r *bufio.Reader) (listing, error) {
	l := listing{refs: map[string]string{}}
	left := maxListed
	for {
		line, err := readLine(r, &left)
		if err != nil {
			return l, fmt.Errorf("listing the sandbox's branches: %w", err)
		}
		if line == "" {
			break
		}
		oid, name, _ := strings.Cut(line, " ")
		if target, ok := strings.CutPrefix(name, "HEAD "); ok {
			if l.head = target; target == "" && objectID().MatchString(oid) {
				l.refs["HEAD"] = oid
			}
			continue
		}
		if !objectID().MatchString(oid) || name != "refs/stash" && name != olderStash+oid && !strings.HasPrefix(name, "refs/heads/") {
			return l, fmt.Errorf("listing the sandbox's branches: unexpected line %.100q", line)
		}
		l.refs[name] = oid
	}
	if latest, is := l.refs["refs/stash"]; is {
		delete(l.refs, olderStash+latest)
	}
	if _, err := r.Peek(1); errors.Is(err, io.EOF) {
		return l, nil
	}
	l.bundle = true
	if err := readHeader(r, &left); err != nil {
		return l, fmt.Errorf("reading the sandbox's bundle: %w", err)
	}
	return l, nil
}

// readHeader reads the header of a bundle. The refs there are ignored: the listing has
// them.
func readHeader(r *bufio.Reader, left *int) error {
	for first := true; ; first = false {
		line, err := readLine(r, left)
		if err != nil {
			return err
		}
		oid, _, _ := strings.Cut(line, " ")
		switch {
		case first && line != "# v2 git bundle" && line != "# v3 git bundle":
			return errors.New("not a bundle")
		case first, strings.HasPrefix(line, "-"), strings.HasPrefix(line, "@object-format="), objectID().MatchString(oid):
		case line == "":
			return nil
		default:
			return fmt.Errorf("unexpected line %.100q", line)
		}
	}
}

// readLine reads a line without its end.
func readLine(r *bufio.Reader, left *int) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if *left -= len(part); *left < 0 {
			return "", fmt.Errorf("more than %d bytes of names", maxListed)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return "", io.ErrUnexpectedEOF
		default:
			return string(line[:max(len(line)-1, 0)]), err
		}
	}
}

var errTooLarge = fmt.Errorf("the new commits have more than %d bytes", int64(maxBundle))

// writePack writes the objects of a bundle to a file.
func writePack(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(r, maxBundle+1))
	if err == nil && n > maxBundle {
		err = errTooLarge
	}
	return errors.Join(err, f.Close())
}
