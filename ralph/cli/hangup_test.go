package cli

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/creack/pty"
	"gotest.tools/v3/assert"
)

func TestDisconnectedTerminalIsIgnoredInASandboxOnly(t *testing.T) {
	master, slave, err := pty.Open()
	assert.NilError(t, err)
	defer func() { _ = slave.Close() }()
	assert.NilError(t, master.Close())

	t.Setenv(wire.DispatchEnv, "")
	_, err = hangupWriter{slave}.Write([]byte("word"))
	assert.ErrorIs(t, err, syscall.EIO)
	t.Setenv(wire.DispatchEnv, "some")
	n, err := hangupWriter{slave}.Write([]byte("word"))
	assert.NilError(t, err)
	assert.Equal(t, n, 4)
	assert.NilError(t, slave.Close())
	_, err = hangupWriter{slave}.Write([]byte("word"))
	assert.ErrorIs(t, err, os.ErrClosed)
}

func TestHangupIsIgnoredInASandbox(t *testing.T) {
	later := make(chan os.Signal, 1)
	signal.Notify(later, syscall.SIGUSR2)
	defer signal.Stop(later)
	for _, tc := range []struct {
		dispatch string
		heard    int
	}{{"", 1}, {"some", 0}} {
		t.Setenv(wire.DispatchEnv, tc.dispatch)
		signals := make(chan os.Signal, 1)
		stop := handleHangup(signals)
		assert.NilError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		if tc.heard > 0 {
			assert.Equal(t, <-signals, syscall.SIGHUP)
		}
		assert.NilError(t, syscall.Kill(os.Getpid(), syscall.SIGUSR2))
		<-later // which comes after the other
		assert.Equal(t, len(signals), 0)
		stop()
		signal.Stop(signals)
	}
}
