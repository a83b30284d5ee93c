package gitsync

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// promptsDir has the user's prompts, which git ignores and loops read.
const promptsDir = ".ralph/prompts"

// promptsScript replaces the prompts of a sandbox; its input is a tar archive, unless its argument is empty.
const promptsScript = `rm -rf ` + promptsDir + `; [ -z "$1" ] || tar -x -f -`

// prompts returns the user's prompts as a tar archive, and its digest; nothing if there are none.
func (r *Repo) prompts() (content []byte, digest string, err error) {
	entries, err := os.ReadDir(filepath.Join(r.git.Root, filepath.FromSlash(promptsDir)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	var paths []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			paths = append(paths, path.Join(promptsDir, e.Name()))
		}
	}
	if err == nil && len(paths) > 0 {
		var archive bytes.Buffer
		err = r.archive(&archive, paths)
		sum := sha256.Sum256(archive.Bytes())
		content, digest = archive.Bytes(), hex.EncodeToString(sum[:])
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading your prompts: %w", err)
	}
	return content, digest, nil
}

// lacksPrompts reports whether the sandbox has not got the user's current prompts.
func (r *Repo) lacksPrompts(st *state) bool {
	_, digest, err := r.prompts()
	return err != nil || digest != st.Prompts
}

// sendPrompts copies the user's prompts to a sandbox that has other ones.
func (r *Repo) sendPrompts(ctx context.Context, st *state, sh Shell) error {
	content, digest, err := r.prompts()
	if err != nil || digest == st.Prompts {
		return err
	}
	if err := sh(ctx, promptsScript, []string{digest}, bytes.NewReader(content), io.Discard); err != nil {
		return fmt.Errorf("copying your prompts to the sandbox %s: %w", r.name, err)
	}
	st.Prompts = digest
	return r.save(*st)
}
