package container

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/scopes"
	"github.com/docker-ralph/docker-ralph/wire"
)

// multiplexed is output as engines send it.
func multiplexed(stream byte, text string) string {
	return string(binary.BigEndian.AppendUint32([]byte{stream, 0, 0, 0}, uint32(len(text)))) + text
}

func TestRelayEndsWithTheErrorOfRalph(t *testing.T) {
	for name, tc := range map[string]struct{ output, want, err string }{
		"it ends":          {multiplexed(1, wire.SessionReady), wire.SessionReady, ""},
		"it fails":         {multiplexed(2, "Error: listening for the session: no space\nHint: x\n"), "", "listening for the session: no space"},
		"another protocol": {"HTTP/1.1 500 no\r\n\r\n", "", "unrecognized stream: 72"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, engine := net.Pipe()
			r := newRelay(t.Context(), client.HijackedResponse{Conn: conn, Reader: bufio.NewReader(conn)})
			defer func() { assert.NilError(t, r.Close()) }()
			go func() {
				_, _ = io.WriteString(engine, tc.output)
				_ = engine.Close()
			}()
			got, err := io.ReadAll(r)
			assert.Equal(t, string(got), tc.want)
			if tc.err == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.err)
		})
	}
}

func TestRelayEndsWithItsContext(t *testing.T) {
	conn, engine := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	r := newRelay(ctx, client.HijackedResponse{Conn: conn, Reader: bufio.NewReader(conn)})
	cancel()
	_, err := engine.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
	_, err = io.ReadAll(r)
	assert.ErrorIs(t, err, io.ErrClosedPipe)
	assert.NilError(t, r.Close())
}

// withTmpfs is an engine with one container, which has temporary file systems.
type withTmpfs struct {
	inspected
	tmpfs map[string]string
}

func (w withTmpfs) ContainerInspect(ctx context.Context, name string, opts client.ContainerInspectOptions) (client.ContainerInspectResult, error) {
	res, err := w.inspected.ContainerInspect(ctx, name, opts)
	if err == nil {
		res.Container.HostConfig = &container.HostConfig{Tmpfs: w.tmpfs}
	}
	return res, err
}

// Without a place for sockets, a sandbox is that of an earlier version, and is recreated.
func TestSandboxWithoutSockets(t *testing.T) {
	dir := t.TempDir()
	own, err := scopes.EnsureClientID(dir)
	assert.NilError(t, err)
	spec := gitSpec(true)
	l := labels(spec)
	labelClient(l, own)
	for name, tc := range map[string]struct {
		tmpfs map[string]string
		want  string
	}{
		"current":               {map[string]string{wire.SessionDir: sessionTmpfs()}, spec.Settings()},
		"of an earlier version": {map[string]string{"/run": ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := &Driver{API: withTmpfs{inspected{listed{}, "sb", l}, tc.tmpfs}, StateDir: dir}
			sb, err := d.Lookup(t.Context(), "sb")
			assert.NilError(t, err)
			assert.Equal(t, sb.Settings, tc.want)
		})
	}
}
