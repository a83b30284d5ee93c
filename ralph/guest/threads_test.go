package guest

import (
	"os"
	"testing"

	"gotest.tools/v3/assert"
)

func TestReserveThreads(t *testing.T) {
	ReserveThreads(20)
	tasks, err := os.ReadDir("/proc/self/task")
	assert.NilError(t, err)
	assert.Assert(t, len(tasks) >= 20, "%d threads", len(tasks))
}
