package gitsync

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// What comes out of a sandbox is bounded.
const (
	maxListed = 8 << 20 // bytes of names
	maxMoved  = 1000    // refs that are fetched at once
	maxBundle = 8 << 30 // bytes of objects
)

// listing is what the sandbox says that its refs are.
type listing struct {
	refs    map[string]string // branches, stashes, and HEAD if it is on no branch
	headRef string            // where HEAD leads to; empty for none
	more    bool              // whether a bundle follows
}

// moved are the refs that are not where they are known to be.
func (l listing) moved(known map[string]string) map[string]string {
	moved := map[string]string{}
	for ref, oid := range l.refs {
		if known[ref] != oid {
			moved[ref] = oid
		}
	}
	return moved
}

// plainGit keeps what an agent has set up for its git from failing ours. It is no
// protection: there is nothing in the sandbox that the agent does not rule.
const plainGit = `git() { command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.pager=cat "$@"; }
`

// outScript lists the sandbox's refs and packs the commits that are new. Its
// input are the names of commits that the host has; its arguments are commits that
// are not to be packed; the only one that is, if not all are; and the git directory
// if nothing else runs, so that a lock in it is of a git that has died. What is stashed has only one
// ref, for the youngest; its log knows the others. As these have no ref, git
// itself would refuse to make a bundle of them alone. Packing reads .gitattributes of
// the current directory, which in the worktree may be a named pipe.
const outScript = plainGit + `if [ -n "$3" ]; then find "$3" -name '*.lock' -not -path '*/objects/*' -exec rm -f {} +; fi
` + soundScript + `refs=$(git for-each-ref --format='%(objectname) %(refname)' refs/heads refs/stash) || exit
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

// readListing reads what outScript writes up to the objects. All of it is
// whatever an agent likes.
func readListing(r *bufio.Reader) (listing, error) {
	l := listing{refs: map[string]string{}}
	left := maxListed
	for {
		line, err := readLine(r, &left)
		if err != nil {
			return l, fmt.Errorf("reading the sandbox's branches: %w", err)
		}
		if line == "" {
			break
		}
		oid, name, _ := strings.Cut(line, " ")
		if target, ok := strings.CutPrefix(name, "HEAD "); ok {
			if l.headRef = target; target == "" && objectID().MatchString(oid) {
				l.refs["HEAD"] = oid
			}
			continue
		}
		if !objectID().MatchString(oid) || name != "refs/stash" && name != olderStash+oid && !strings.HasPrefix(name, "refs/heads/") {
			return l, fmt.Errorf("reading the sandbox's branches: %q was not understood", shorten(line))
		}
		l.refs[name] = oid
	}
	if youngest, is := l.refs["refs/stash"]; is {
		delete(l.refs, olderStash+youngest)
	}
	if _, err := r.Peek(1); errors.Is(err, io.EOF) {
		return l, nil
	}
	l.more = true
	return l, readHeader(r, &left)
}

// readHeader reads the head of a bundle. What it names does not count: the list
// does.
func readHeader(r *bufio.Reader, left *int) error {
	for first := true; ; first = false {
		line, err := readLine(r, left)
		if err != nil {
			return fmt.Errorf("reading the sandbox's commits: %w", err)
		}
		switch {
		case first && line != "# v2 git bundle" && line != "# v3 git bundle":
			return errors.New("reading the sandbox's commits: this is no bundle")
		case first, strings.HasPrefix(line, "-"):
		case strings.HasPrefix(line, "@"):
			if !strings.HasPrefix(line, "@object-format=") {
				return fmt.Errorf("reading the sandbox's commits: bundles with %q are not taken", shorten(line))
			}
		case line == "":
			return nil
		default:
			if oid, _, _ := strings.Cut(line, " "); !objectID().MatchString(oid) {
				return fmt.Errorf("reading the sandbox's commits: %q was not understood", shorten(line))
			}
		}
	}
}

// readLine reads a line without its end. Names in it may hold anything else.
func readLine(r *bufio.Reader, left *int) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if *left -= len(part); *left < 0 {
			return "", fmt.Errorf("there are more than %d bytes of names", maxListed)
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

func shorten(text string) string { return text[:min(len(text), 100)] }

var errTooLarge = fmt.Errorf("the sandbox's new commits have more than %d bytes", int64(maxBundle))

// writePack writes the objects that follow a listing to a file.
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
