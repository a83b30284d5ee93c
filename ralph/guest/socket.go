package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/wire"
)

// SessionSocket returns the path of the socket of a session. [DialSession] connects to it.
func SessionSocket(id string) string {
	dir := wire.SessionDir
	if !isContainer() {
		home, _ := homeDir() // without one, there is no socket
		dir = filepath.Join(home, ".ralph-session")
	}
	return filepath.Join(dir, id+".sock")
}

// isContainer reports whether this sandbox is a container, which is created with a directory for sockets.
func isContainer() bool {
	info, err := os.Stat(wire.SessionDir)
	return err == nil && info.IsDir()
}

// DialSession connects to the host through the socket of a session.
func DialSession(ctx context.Context, id string) (net.Conn, error) {
	if !validID(id) {
		return nil, fmt.Errorf("invalid session %q", id)
	}
	return dialSocket(ctx, SessionSocket(id))
}

func dialSocket(ctx context.Context, path string) (conn net.Conn, err error) {
	err = atSocket(path, func(address string) error {
		conn, err = (&net.Dialer{}).DialContext(ctx, "unix", address)
		return err
	})
	return conn, err
}

var errTaken = errors.New("another process listens on the socket")

// listenSocket listens on a socket that every user can connect to, and replaces one on which nobody listens.
func listenSocket(ctx context.Context, path string) (listener *net.UnixListener, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if conn, err := dialSocket(ctx, path); err == nil {
		return nil, errors.Join(errTaken, conn.Close())
	}
	_ = os.Remove(path) // if it fails, so does listening
	err = atSocket(path, func(address string) error {
		l, err := (&net.ListenConfig{}).Listen(ctx, "unix", address)
		if err == nil {
			listener = l.(*net.UnixListener)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false) // the path may be that of a later one
	if err := os.Chmod(path, 0o666); err != nil {
		_ = listener.Close()
		return nil, err
	}
	return listener, nil
}

// maxSocketPath is the length of the longest path of a socket.
const maxSocketPath = 107

// atSocket calls use with an address of a socket that is short enough.
func atSocket(path string, use func(address string) error) error {
	if len(path) <= maxSocketPath {
		return use(path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return use(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}
