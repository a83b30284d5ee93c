package host

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

func TestEndThatHasJustHappened(t *testing.T) {
	t.Parallel()
	e := End{Command: []string{"ralph", "build"}, At: time.Now().Add(time.Hour), ExitCode: 12}
	assert.Assert(t, cmp.Contains(e.String(), " (less than a second ago) with exit code 12"))
}
