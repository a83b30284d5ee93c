package guest

import (
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
)

func TestOnlyLoopsInASandboxAreProtected(t *testing.T) {
	before, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	assert.NilError(t, err)
	defer func() { assert.NilError(t, unix.Prctl(unix.PR_SET_DUMPABLE, uintptr(before), 0, 0, 0)) }()
	for _, tc := range []struct {
		name, config string
		args         []string
		dumpable     int
	}{
		{"on a host", "", []string{"ralph", "build"}, 1},
		{"help", "{}", []string{"ralph"}, 1},
		{"another command", "{}", []string{"ralph", "task", "build"}, 1},
		{"build", "{}", []string{"/opt/ralph/0123/ralph", "build", "-n", "1"}, 0},
		{"plan", "{}", []string{"ralph", "plan"}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.NilError(t, unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0))
			t.Setenv(config.GuestEnv, tc.config)
			assert.NilError(t, Protect(tc.args))
			dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
			assert.NilError(t, err)
			assert.Equal(t, dumpable, tc.dumpable)
		})
	}
}
