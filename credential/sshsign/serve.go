package sshsign

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
)

const (
	// maxRequest limits a request, in bytes: enough for an RSA key of 16384 bits and
	// a digest.
	maxRequest = 8 << 10
	// maxConnections limits concurrent connections. Others wait.
	maxConnections = 8
	// idle is the timeout of a connection without data.
	idle = 10 * time.Second
	// maxSocketPath is the maximum length of a socket path on Linux, in bytes.
	maxSocketPath = 107
	// staleAfter is the age from which a socket without a listener is stale: a new one may
	// not listen yet.
	staleAfter = time.Minute
)

// Dir is the directory for the sockets of a sandbox. Its name is short, because the length of
// socket paths is limited.
func Dir(stateDir, sandbox string) string {
	sum := sha256.Sum256([]byte(sandbox))
	return filepath.Join(stateDir, "sign", hex.EncodeToString(sum[:6]))
}

// MakeDir creates the directory. On this machine only its owner gets at it, because of the directory
// above; in the sandbox, which has another user, everybody.
func MakeDir(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = errors.Join(os.Chmod(filepath.Dir(dir), 0o700), os.Chmod(dir, 0o755)) //nolint:gosec // see above
	}
	if err != nil {
		return fmt.Errorf("creating the directory for the signing socket: %w", err)
	}
	return nil
}

// Serve signs with the key at a new socket in dir until stop is called. It returns the
// socket's name in dir.
func Serve(ctx context.Context, dir string, a Agent, key Key) (name string, stop func(), err error) {
	if err := MakeDir(dir); err != nil {
		return "", nil, err
	}
	sweep(ctx, dir)
	name = rand.Text()[:8]
	path := filepath.Join(dir, name)
	if len(path) > maxSocketPath {
		return "", nil, hint.Wrap(fmt.Errorf("signing commits: path %s is too long for a socket (%d of %d bytes)", path, len(path), maxSocketPath), "use a shorter DOCKER_CONFIG")
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err == nil {
		if err = os.Chmod(path, 0o666); err != nil { //nolint:gosec // see MakeDir
			_ = listener.Close()
		}
	}
	if err != nil {
		return "", nil, fmt.Errorf("listening on the signing socket: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	f := &filter{key: key, agent: a}
	all.Go(func() { f.accept(ctx, listener, &all) })
	return name, func() {
		cancel()
		_ = listener.Close() // removes its file
		all.Wait()
	}, nil
}

// sweep removes sockets of commands that were killed.
func sweep(ctx context.Context, dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode().Type() != os.ModeSocket || time.Since(info.ModTime()) < staleAfter {
			continue
		}
		path := filepath.Join(dir, e.Name())
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
		if err == nil {
			_ = conn.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(path)
		}
	}
}

func (f *filter) accept(ctx context.Context, listener net.Listener, all *sync.WaitGroup) {
	free := make(chan struct{}, maxConnections)
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := listener.Accept()
		if err != nil {
			<-free
			select {
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond): // out of descriptors, for example
				continue
			}
		}
		all.Go(func() {
			defer func() { <-free }()
			defer func() { _ = conn.Close() }()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			f.serve(ctx, conn)
		})
	}
}

// serve answers requests until the connection ends, or a request is too large.
func (f *filter) serve(ctx context.Context, conn net.Conn) {
	for ctx.Err() == nil {
		if err := conn.SetDeadline(time.Now().Add(idle)); err != nil {
			return
		}
		request, err := readMessage(conn)
		if err != nil {
			return
		}
		answer := f.answer(ctx, request)
		message := append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...)
		if err := conn.SetDeadline(time.Now().Add(idle)); err != nil {
			return
		}
		if _, err := conn.Write(message); err != nil {
			return
		}
	}
}

func readMessage(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n == 0 || n > maxRequest {
		return nil, fmt.Errorf("invalid size of a request: %d bytes", n)
	}
	message := make([]byte, n)
	_, err := io.ReadFull(r, message)
	return message, err
}
