//go:build unix

package gitrepo

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire/budget"
)

// An agent can make a repository of which git lists without end.
func TestOutputOfGitHasABudget(t *testing.T) {
	program := filepath.Join(t.TempDir(), "git")
	assert.NilError(t, os.WriteFile(program, []byte("#!/bin/sh\nhead -c 100000 /dev/zero >&2\nexec head -c 1000000 /dev/zero\n"), 0o700))
	g := Git{Program: program, Dir: t.TempDir(), Environ: os.Environ(), Known: Config{}, limit: 64 << 10}
	out, err := g.Run(t.Context(), "for-each-ref")
	assert.ErrorIs(t, err, budget.ErrExceeded)
	assert.Error(t, err, "the output of git for-each-ref is larger than 64KiB: more than its budget")
	assert.Assert(t, len(out) <= 64<<10)
}
