package gitsync

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
)

// promptsDir has the user's prompts, which loops read.
const promptsDir = ".ralph/prompts"

// promptFiles are the files there, and maxPrompt is how large one may be, in bytes.
var promptFiles = []string{"plan.md", "build.md", "spec.md", "refused.md"}

const maxPrompt = 1 << 20

// promptsScript replaces the prompts of a sandbox that git does not track there. Its input is a tar archive, its
// arguments are what the archive has, if anything, and the files.
const promptsScript = plainGit + `has=$1; shift
for f in "$@"; do git ls-files --error-unmatch -- "$f" >/dev/null 2>&1 || rm -f "$f"; done
[ -z "$has" ] || tar -x -f -`

// untrackedPrompts returns the paths of the user's prompts that git does not track. Tracked ones come with commits.
// Links are not followed: the commits of an agent can bring some.
func (r *Repo) untrackedPrompts(ctx context.Context) (paths []string, err error) {
	root, err := os.OpenRoot(r.git.Root)
	if err != nil {
		return nil, fmt.Errorf("reading your prompts: %w", err)
	}
	defer func() { _ = root.Close() }()
	for _, dir := range []string{".ralph", promptsDir} {
		if info, err := root.Lstat(dir); err != nil || !info.IsDir() {
			return nil, nil //nolint:nilerr // there are none
		}
	}
	for _, name := range promptFiles {
		info, err := root.Lstat(promptsDir + "/" + name)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if info.Size() > maxPrompt {
			return nil, hint.Wrap(fmt.Errorf("your prompt %s/%s is larger than 1 MiB", promptsDir, name), "shorten it, or move it away")
		}
		paths = append(paths, promptsDir+"/"+name)
	}
	if len(paths) == 0 {
		return nil, nil
	}
	tracked, err := r.git.Output(ctx, nil, "ls-files", "-z", "--", promptsDir)
	if err != nil {
		return nil, fmt.Errorf("reading your prompts: %w", err)
	}
	names := strings.Split(string(tracked), "\x00")
	return slices.DeleteFunc(paths, func(path string) bool { return slices.Contains(names, path) }), nil
}

// prompts returns the user's prompts that git does not track as a tar archive, and its digest; nothing if there are
// none.
func (r *Repo) prompts(ctx context.Context) (content []byte, digest string, err error) {
	paths, err := r.untrackedPrompts(ctx)
	if len(paths) == 0 || err != nil {
		return nil, "", err
	}
	var archive bytes.Buffer
	if err := r.archive(&archive, paths); err != nil {
		return nil, "", fmt.Errorf("reading your prompts: %w", err)
	}
	sum := sha256.Sum256(archive.Bytes())
	return archive.Bytes(), hex.EncodeToString(sum[:]), nil
}

// lacksPrompts reports whether the sandbox has not got the user's current prompts.
func (r *Repo) lacksPrompts(ctx context.Context, st *state) bool {
	_, digest, err := r.prompts(ctx)
	return err != nil || digest != st.Prompts
}

// sendPrompts copies the user's prompts to a sandbox that has other ones.
func (r *Repo) sendPrompts(ctx context.Context, st *state, sh Shell) error {
	content, digest, err := r.prompts(ctx)
	if err != nil || digest == st.Prompts {
		return err
	}
	args := []string{digest}
	for _, name := range promptFiles {
		args = append(args, promptsDir+"/"+name)
	}
	if err := sh(ctx, promptsScript, args, bytes.NewReader(content), io.Discard); err != nil {
		return fmt.Errorf("copying your prompts to sandbox %s: %w", r.name, err)
	}
	st.Prompts = digest
	return r.save(*st)
}
