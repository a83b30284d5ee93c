// Package listing reads what a sandbox says that its refs are, and the bundle that
// follows. An agent controls all of it.
package listing

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
	"github.com/docker-ralph/docker-ralph/gitsync/refname"
)

// Limits of what comes out of a sandbox.
const (
	maxListed = 8 << 20 // bytes of names
	maxBundle = 8 << 30 // bytes of objects
)

// Listing is what the sandbox says that its refs are.
type Listing struct {
	Refs   map[string]string // branches, stashes, and HEAD if it is detached
	Head   string            // the ref of HEAD; empty if it is detached
	Bundle bool              // whether a bundle follows
}

// Moved returns the refs that differ from those known.
func (l Listing) Moved(known map[string]string) map[string]string {
	moved := map[string]string{}
	for ref, oid := range l.Refs {
		if known[ref] != oid {
			moved[ref] = oid
		}
	}
	return moved
}

// Read reads a listing up to the objects.
func Read(r *bufio.Reader) (Listing, error) {
	l := Listing{Refs: map[string]string{}}
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
			if l.Head = target; target == "" && hostgit.IsObjectID(oid) {
				l.Refs["HEAD"] = oid
			}
			continue
		}
		if !hostgit.IsObjectID(oid) || name != "refs/stash" && name != refname.OlderStash+oid && !strings.HasPrefix(name, "refs/heads/") {
			return l, fmt.Errorf("listing the sandbox's branches: unexpected line %.100q", line)
		}
		l.Refs[name] = oid
	}
	if latest, is := l.Refs["refs/stash"]; is {
		delete(l.Refs, refname.OlderStash+latest)
	}
	if _, err := r.Peek(1); errors.Is(err, io.EOF) {
		return l, nil
	}
	l.Bundle = true
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
		case first, strings.HasPrefix(line, "-"), strings.HasPrefix(line, "@object-format="), hostgit.IsObjectID(oid):
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

// ErrTooLarge says that the objects of a bundle exceed a limit.
var ErrTooLarge = fmt.Errorf("the new commits have more than %d bytes", int64(maxBundle))

// WritePack writes the objects of a bundle to a file.
func WritePack(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(r, maxBundle+1))
	if err == nil && n > maxBundle {
		err = ErrTooLarge
	}
	return errors.Join(err, f.Close())
}
