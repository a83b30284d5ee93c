package guest

import (
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire"
)

func TestAwaitInit(t *testing.T) {
	address := "@" + t.Name() + strconv.Itoa(os.Getpid())
	await := func(timeout time.Duration) error {
		t.Setenv(wire.InitEnv, "1")
		return awaitInit(t.Context(), address, timeout)
	}
	assert.ErrorContains(t, await(20*time.Millisecond), "waiting for the init process")
	assert.NilError(t, awaitInit(t.Context(), address, time.Minute), "a child of a command of the engine")
	listening := make(chan net.Listener)
	time.AfterFunc(20*time.Millisecond, func() {
		l, err := net.Listen("unix", address)
		assert.Check(t, err)
		listening <- l
	})
	assert.NilError(t, await(time.Minute))
	assert.NilError(t, (<-listening).Close())
}
