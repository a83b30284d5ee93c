package gitsync

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// unpackLimit is how many objects are written one by one instead of as a pack;
// git's own fetch has the same.
const unpackLimit = 100

// unpack has a git take the objects of a pack in. Each of them is checked.
func (r *Repo) unpack(ctx context.Context, g git, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, 12)
	if _, err := io.ReadFull(f, head); err != nil || !bytes.HasPrefix(head, []byte("PACK")) {
		return &refusal{fmt.Errorf("the commits of the sandbox %s came without their objects", r.name)}
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	args := []string{"index-pack", "--stdin", "--fix-thin", "--strict"}
	if binary.BigEndian.Uint32(head[8:]) < unpackLimit {
		args = []string{"unpack-objects", "-q", "--strict"}
	}
	if _, err := g.run(ctx, f, args...); errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("taking the commits of the sandbox %s: %w", r.name, err)
	} else if err != nil {
		return refuse(ctx, fmt.Errorf("the commits of the sandbox %s were not taken, because they are not sound: %w", r.name, err))
	}
	return nil
}

// complete makes sure that commits are all that some names stand for, and that
// everything is there that they lead to.
func (r *Repo) complete(ctx context.Context, g git, tips []string) error {
	input := strings.Join(tips, "\n") + "\n"
	out, err := g.run(ctx, strings.NewReader(input), "cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return fmt.Errorf("looking at what the sandbox %s has: %w", r.name, err)
	}
	for line := range strings.Lines(string(out)) {
		switch oid, kind, _ := strings.Cut(strings.TrimSpace(line), " "); kind {
		case "commit":
		case "missing":
			return &refusal{fmt.Errorf("the commit %s of the sandbox %s is missing", shorten(oid), r.name)}
		default:
			return &refusal{fmt.Errorf("%s, which a branch of the sandbox %s leads to, is no commit", shorten(oid), r.name)}
		}
	}
	if _, err := g.run(ctx, strings.NewReader(input), "rev-list", "--objects", "--stdin", "--not", "--all", "--quiet"); err != nil {
		return refuse(ctx, fmt.Errorf("the commits of the sandbox %s were not taken, because parts of them are missing: %w", r.name, err))
	}
	return nil
}

// refuse makes a refusal of an error of git's, unless git was cancelled.
func refuse(ctx context.Context, err error) error {
	if _, said := errors.AsType[*gitrepo.GitError](err); !said || ctx.Err() != nil {
		return err
	}
	return &refusal{err}
}

// migrate moves the objects of a quarantine to those of the repository, as git does
// after a fetch: a pack before its index, by which it is found.
func (r *Repo) migrate(quarantine string) error {
	objects := filepath.Join(r.commonDir, "objects")
	var last [][2]string
	err := filepath.WalkDir(quarantine, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(quarantine, path)
		if err != nil || rel == "." {
			return err
		}
		to := filepath.Join(objects, rel)
		switch {
		case rel == "info":
			return fs.SkipDir
		case e.IsDir():
			return r.git.owner.mkdirLike(path, to)
		case filepath.Ext(path) == ".idx":
			last = append(last, [2]string{path, to})
			return nil
		}
		return os.Rename(path, to)
	})
	for _, move := range last {
		if err == nil {
			err = os.Rename(move[0], move[1])
		}
	}
	if err != nil {
		return fmt.Errorf("taking the sandbox's commits over: %w", err)
	}
	return nil
}

// mkdirLike makes a folder with the permissions of another one, unless it is there.
func (o owner) mkdirLike(like, path string) error {
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o777); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := os.Chmod(path, info.Mode()); err != nil {
		return err
	}
	return o.give(path)
}
