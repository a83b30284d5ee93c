package gitsync

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/attemptref"
)

// lfsScript lists the objects of Git LFS.
const lfsScript = plainGit + `cd "$(git rev-parse --git-dir)/lfs/objects" 2>/dev/null || exit 0
find . -type f | sed 's,.*/,,'
`

var lfsID = lazyregexp.New(`^[0-9a-f]{64}$`)

// OnlyLFS counts the objects of Git LFS that a sandbox has and the user's repository lacks.
// They are no part of its commits.
func (r *Repo) OnlyLFS(ctx context.Context, sh Shell) (n int, err error) {
	var out limited
	if err := sh(ctx, lfsScript, nil, nil, &out); err != nil {
		return 0, fmt.Errorf("listing Git LFS objects of sandbox %s: %w", r.name, err)
	}
	for id := range strings.Lines(out.String()) {
		if id = strings.TrimSpace(id); lfsID().MatchString(id) && !exists(r.git.CommonDir, "lfs", "objects", id[:2], id[2:4], id) {
			n++
		}
	}
	return n, nil
}

// limited is the output of a script: an agent can make it endless.
type limited struct{ strings.Builder }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxCopied {
		return 0, errors.New("too much output")
	}
	return l.Builder.Write(p)
}

// refusedScript lists the refs of what runs have left whose commits were refused.
const refusedScript = plainGit + `git for-each-ref --format='%(refname)' ` + attemptref.Unfetched + `
`

// OnlyRefused returns the refs of a sandbox with what runs have left whose commits were refused: no fetch gets them.
func (r *Repo) OnlyRefused(ctx context.Context, sh Shell) ([]string, error) {
	var out limited
	if err := sh(ctx, refusedScript, nil, nil, &out); err != nil {
		return nil, fmt.Errorf("listing refused commits of sandbox %s: %w", r.name, err)
	}
	return strings.Fields(out.String()), nil
}
