package commits

import (
	"bytes"
	"errors"
	"testing"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/hint"
)

// A scan that cannot run lets nothing pass, unless it is only to warn.
func TestScansWithoutAScanner(t *testing.T) {
	for _, tc := range []struct {
		mode  string
		block bool
	}{{CredScanBlock, true}, {CredScanWarn, false}} {
		t.Run(tc.mode, func(t *testing.T) {
			var said bytes.Buffer
			i := &Scan{
				Host: host.Host{Stderr: &said, StateDir: t.TempDir()}, Root: t.TempDir(), Mode: tc.mode,
				Connected: func() (host.API, error) { return nil, errors.New("no engine") },
			}
			err := i.Worktree(t.Context())
			if !tc.block {
				assert.NilError(t, err)
				assert.Assert(t, cmp.Contains(said.String(), "Warning: the worktree was not scanned for secrets: "))
				return
			}
			assert.ErrorContains(t, err, "cannot be pulled: no engine")
			assert.Assert(t, cmp.Contains(hint.Of(err)[0], "--cred-scan=warn"))
		})
	}
}
