//go:build unix

package microvm

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire/budget"
)

// The programs pass on what agents write. Their output ends at its budget, also if os/exec copies it.
func TestOutputOfAProgramHasABudget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sbx")
	assert.NilError(t, os.WriteFile(path, []byte("#!/bin/sh\nif [ $1 = ls ]; then exec head -c 20000000 /dev/zero; fi\nyes | head -c 20000000 >&2; echo done\n"), 0o700))
	c := client{path: path, cli: "sbx"}
	_, err := c.output(t.Context(), time.Minute, "ls")
	assert.ErrorIs(t, err, budget.ErrExceeded)
	assert.Error(t, err, `"sbx ls": the output is larger than 8MiB: more than its budget`)

	out, err := c.output(t.Context(), time.Minute, "version")
	assert.NilError(t, err)
	assert.Equal(t, string(out), "done\n")
}
