package guest

import (
	"context"
	"fmt"
)

// Reset sets the branch, which is checked out, and its files to a commit, or to none if that is empty. Uncommitted
// changes stay; conflicting ones are stashed. The notes say so.
func (b *Branch) Reset(ctx context.Context, commit string) (notes []string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("resetting branch %s to %s: %w", b.Name(), shortHash(commit), err)
		}
	}()
	target := commit
	if commit == "" {
		if target, err = b.git(ctx, "", "mktree"); err != nil { // the empty tree
			return nil, err
		}
	}
	// What git reset --keep does, which needs a commit.
	if _, err = b.git(ctx, "", "read-tree", "-m", "-u", "HEAD", target); err != nil {
		stashed, stashErr := b.stashConflicts(ctx, target)
		if stashErr != nil {
			return nil, stashErr
		}
		if stashed {
			notes = []string{"conflicting uncommitted changes were stashed (git stash list)"}
		}
		if _, err = b.git(ctx, "", "read-tree", "-m", "-u", "HEAD", target); err != nil {
			return notes, err
		}
	}
	if commit == "" {
		_, err = b.git(ctx, "", "update-ref", "-d", b.ref)
	} else {
		_, err = b.git(ctx, "", "update-ref", "-m", "ralph: reset to the accepted commit", b.ref, commit)
	}
	if err == nil {
		b.last = commit
	}
	return notes, err
}
