package guest

import (
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
)

func TestExecSetsAMissingUmask(t *testing.T) {
	for _, tc := range []struct {
		given int
		want  string
	}{{0, "0022"}, {0o022, "0022"}, {0o002, "0002"}, {0o077, "0077"}} {
		cmd := hidden(t, "_exec", "sh", "-c", "umask; exit 7")
		before := unix.Umask(tc.given) // nothing else runs in this package meanwhile
		stdout, stderr, code := result(t, cmd)
		unix.Umask(before)
		assert.Equal(t, stdout+stderr, tc.want+"\n", "given %04o", tc.given)
		assert.Equal(t, code, 7)
	}
	_, stderr, code := result(t, hidden(t, "_exec", "no-such-program"))
	assert.Equal(t, code, exitNotFound, stderr)
	_, stderr, code = result(t, hidden(t, "_exec"))
	assert.Equal(t, code, 1, stderr)
}
