//go:build unix

package sshsign

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh/agent"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/hint"
)

func dial(t *testing.T, path string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", path)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestServe(t *testing.T) {
	key, private := newKey(t)
	socket, _ := userAgent(t, private)
	dir := Dir(t.TempDir(), "ralph-a-b")
	assert.Equal(t, Dir("/s", "a") == Dir("/s", "b"), false)

	// Sockets of killed commands are removed, new ones are kept.
	assert.NilError(t, MakeDir(dir))
	for _, name := range []string{"old", "new"} {
		left, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name)})
		assert.NilError(t, err)
		left.SetUnlinkOnClose(false)
		assert.NilError(t, left.Close())
	}
	hourAgo := time.Now().Add(-time.Hour)
	assert.NilError(t, os.Chtimes(filepath.Join(dir, "old"), hourAgo, hourAgo))

	name, stop, err := Serve(t.Context(), dir, socket, key)
	assert.NilError(t, err)
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	assert.NilError(t, err)
	assert.Assert(t, is.Len(names, 2))
	// Others on this machine do not get there, the user of the sandbox does.
	for path, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o700, dir: 0o755, filepath.Join(dir, name): 0o666} {
		info, err := os.Stat(path)
		assert.NilError(t, err)
		assert.Equal(t, info.Mode().Perm(), mode, path)
	}

	conn := dial(t, filepath.Join(dir, name))
	client := agent.NewClient(conn)
	keys, err := client.List()
	assert.NilError(t, err)
	assert.Assert(t, is.Len(keys, 1))
	_, err = client.Sign(keys[0], blob("git", "", "sha512", digest))
	assert.NilError(t, err)
	_, err = client.Sign(keys[0], []byte("a challenge"))
	assert.ErrorContains(t, err, "failed to sign")
	assert.ErrorContains(t, client.RemoveAll(), "failure")

	// A message that is too long is not read.
	long := dial(t, filepath.Join(dir, name))
	_, err = long.Write(binary.BigEndian.AppendUint32(nil, maxRequest+1))
	assert.NilError(t, err)
	_, err = long.Read(make([]byte, 1))
	assert.Equal(t, err, io.EOF)

	// Idle connections are closed at the end.
	for range maxConnections + 2 {
		dial(t, filepath.Join(dir, name))
	}
	stop()
	_, err = conn.Read(make([]byte, 1))
	assert.Equal(t, err, io.EOF)
	_, err = os.Stat(filepath.Join(dir, name))
	assert.Assert(t, os.IsNotExist(err))
}

func TestLongPathIsRejected(t *testing.T) {
	key, private := newKey(t)
	socket, _ := userAgent(t, private)
	dir := Dir(filepath.Join(t.TempDir(), strings.Repeat("x", 90)), "ralph-a-b")
	_, _, err := Serve(t.Context(), dir, socket, key)
	assert.ErrorContains(t, err, "too long for a socket")
	assert.DeepEqual(t, hint.Of(err), []string{"use a shorter DOCKER_CONFIG"})
}
