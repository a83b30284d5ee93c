package gitsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
)

// unpackLimit is from how many objects on a pack is stored as it is, as in git's own
// fetch.
const unpackLimit = 100

// unpack stores the objects of a pack, and verifies each.
func (r *Repo) unpack(ctx context.Context, g hostgit.Git, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	config, err := r.git.Config(ctx)
	if err != nil {
		return err
	}
	idLength := 20
	if config.Last("extensions", "objectformat") == "sha256" {
		idLength = 32
	}
	objects, size, err := packSize(f, idLength)
	if err != nil {
		return &invalidError{fmt.Errorf("verifying the commits of sandbox %s: %w", r.name, err)}
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	args := []string{"index-pack", "--stdin", "--fix-thin", "--strict"}
	if objects < unpackLimit && size <= maxLooseSize {
		args = []string{"unpack-objects", "-q", "--strict"}
	}
	_, err = g.WithMemoryLimit().Output(ctx, f, args...)
	if hostgit.OutOfMemory(err) {
		err = fmt.Errorf("%w (at most %d MiB)", err, gitrepo.MaxMemory>>20)
	}
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("storing the commits of sandbox %s: %w", r.name, err)
	} else if err != nil {
		return asInvalid(ctx, fmt.Errorf("verifying the commits of sandbox %s: %w", r.name, err))
	}
	return nil
}

// verify checks that all tips are commits, with everything that they refer to.
func (r *Repo) verify(ctx context.Context, g hostgit.Git, tips []string) error {
	input := strings.Join(tips, "\n") + "\n"
	out, err := g.Output(ctx, strings.NewReader(input), "cat-file", "--batch-check=%(objectname) %(objecttype)")
	if err != nil {
		return fmt.Errorf("verifying the commits of sandbox %s: %w", r.name, err)
	}
	for line := range strings.Lines(string(out)) {
		switch oid, kind, _ := strings.Cut(strings.TrimSpace(line), " "); kind {
		case "commit":
		case "missing":
			return &invalidError{fmt.Errorf("verifying the commits of sandbox %s: %.100s is missing", r.name, oid)}
		default:
			return &invalidError{fmt.Errorf("verifying the commits of sandbox %s: %.100s is not a commit", r.name, oid)}
		}
	}
	if _, err := g.Output(ctx, strings.NewReader(input), "rev-list", "--objects", "--stdin", "--not", "--all", "--quiet"); err != nil {
		if _, own := r.git.Output(ctx, nil, "rev-list", "--all", "--max-count=1"); own != nil { // which lacks the object of a ref
			return fmt.Errorf("verifying the commits of sandbox %s: your repository is damaged: %w", r.name, own)
		}
		return asInvalid(ctx, fmt.Errorf("verifying the commits of sandbox %s: missing objects: %w", r.name, err))
	}
	if err := r.verifyBudgets(ctx, g, input); err != nil {
		return asInvalid(ctx, fmt.Errorf("verifying the commits of sandbox %s: %w", r.name, err))
	}
	return nil
}

// asInvalid makes an [invalidError] of a failure of git or of a [sizeError], unless git was cancelled.
func asInvalid(ctx context.Context, err error) error {
	_, failed := errors.AsType[*gitrepo.GitError](err)
	_, large := errors.AsType[*sizeError](err)
	if !failed && !large || ctx.Err() != nil {
		return err
	}
	return &invalidError{err}
}

// migrate moves objects from quarantine to the repository, each pack before its index,
// by which it is found.
func (r *Repo) migrate(quarantine string) error {
	objects := filepath.Join(r.git.CommonDir, "objects")
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
			return r.git.Owner.MkdirLike(path, to)
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
	return err
}
