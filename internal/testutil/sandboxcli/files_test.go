package sandboxcli_test

import (
	"context"
	"io/fs"
	"syscall"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

func owner(t *testing.T, info fs.FileInfo) uint32 {
	t.Helper()
	st, ok := info.Sys().(*syscall.Stat_t)
	assert.Assert(t, ok)
	return st.Uid
}

func removeImage(t *testing.T, e engines.Engine, name string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	_, err := e.Client(t).ImageRemove(ctx, name, client.ImageRemoveOptions{Force: true})
	assert.Check(t, err)
}
