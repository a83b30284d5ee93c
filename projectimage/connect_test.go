package projectimage

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
)

// podman returns a connection to a server that answers HTTP/1.1 to everything.
func podman(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		_, _ = theirs.Read(make([]byte, 1024))
		_, _ = io.WriteString(theirs, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
		_ = theirs.Close()
	}()
	return ours, nil
}

func TestNoBuildKit(t *testing.T) {
	for _, tc := range []struct {
		name, host string
		dial       func(context.Context) (net.Conn, error)
		native     bool
	}{
		{"nothing answers", "unix:///test.sock", nil, true},
		{"something else answers", "unix:///test.sock", podman, true},
		{"named pipe", "npipe:////./pipe/docker_engine", nil, true},
		{"remote", "tcp://10.0.0.1:2376", podman, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, engine, _ := newFake(t, nil)
			engine.host, engine.dial = tc.host, tc.dial
			_, err := b.connect(t.Context())
			var noBuildKit *NoBuildKitError
			assert.Assert(t, errors.As(err, &noBuildKit))
			assert.ErrorContains(t, err, "the engine at "+tc.host+" has no BuildKit that answers, so no image can be built on it: "+
				"use Docker 20.10 or newer, or give a ready image with --image IMAGE: ")
			assert.ErrorContains(t, err, "received 404")
			assert.Assert(t, slices.Contains(engine.calls, "hijack /grpc h2c"))
			assert.Equal(t, slices.Contains(engine.calls, "dial"), tc.native)
		})
	}
}

func TestConnectCancelled(t *testing.T) {
	b, engine, _ := newFake(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	engine.hijack = func(context.Context) (net.Conn, error) {
		cancel()
		return nil, errors.New("broken pipe")
	}
	_, err := b.connect(ctx)
	assert.Assert(t, errors.Is(err, context.Canceled), "%v", err)
}
