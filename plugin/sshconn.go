package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/docker/cli/cli/connhelper/ssh"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// sshHost is the placeholder of the host of requests through ssh, as in the Docker CLI.
const sshHost = "http://docker.example.com"

// sshDialer returns a dialer for an ssh:// address: a connection is a process of ssh that runs
// "docker system dial-stdio". Connections of the Docker CLI wait for the end of that
// process, which with a shared login can be the end of the program on the other side.
func sshDialer(address string) (*dialer, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	spec, err := ssh.NewSpec(u)
	if err != nil {
		return nil, fmt.Errorf("using the address %s: %w", address, err)
	}
	remote := []string{"docker", "system", "dial-stdio"}
	if strings.Trim(spec.Path, "/") != "" {
		remote = []string{"docker", "--host=unix://" + spec.Path, "system", "dial-stdio"}
	}
	shared := sharedLogin()
	options := append(shared, "-o", "ConnectTimeout=30", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=2", "-T")
	args, err := spec.Command(options, remote...)
	if err != nil {
		return nil, fmt.Errorf("using the address %s: %w", address, err)
	}
	d := &dialer{dial: func(ctx context.Context) (net.Conn, error) { return startSSH(ctx, args) }}
	if len(shared) > 0 { // others would log in once more
		d.spares = spareConnections
		d.loggedIn = func(ctx context.Context) bool {
			check := exec.CommandContext(ctx, "ssh", append([]string{"-O", "check"}, args...)...)
			newSession(check)
			return check.Run() == nil
		}
	}
	return d, nil
}

// sshWait is how long the output of an ended ssh is waited for: a background process that has the
// shared login can keep it open.
const sshWait = time.Second

// sshConn is a connection through a process of ssh.
type sshConn struct {
	cmd     *exec.Cmd
	in, out *os.File
	stderr  bytes.Buffer // complete when wait returns
	wait    func() error
	kill    sync.Once
}

// startSSH starts ssh. Connections outlive the request that they were made for.
func startSSH(ctx context.Context, args []string) (net.Conn, error) {
	c := &sshConn{cmd: exec.CommandContext(ctx, "ssh", args...)}
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), in.Close())
	}
	c.in, c.out = in, out
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr, c.cmd.WaitDelay = stdin, stdout, &c.stderr, sshWait
	newSession(c.cmd)
	err = c.cmd.Start()
	_, _ = stdin.Close(), stdout.Close() // the process has them
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	c.wait = sync.OnceValue(c.cmd.Wait)
	return c, nil
}

// Read implements [net.Conn]. A connection that ends with an error of ssh is an
// [io.ErrUnexpectedEOF].
func (c *sshConn) Read(p []byte) (int, error) {
	n, err := c.out.Read(p)
	if errors.Is(err, io.EOF) && c.wait() != nil {
		err = fmt.Errorf("ssh: %s: %w", termsafe.Line(strings.TrimSpace(c.stderr.String())), io.ErrUnexpectedEOF)
	}
	return n, err
}

// Write implements [net.Conn].
func (c *sshConn) Write(p []byte) (int, error) { return c.in.Write(p) }

// CloseWrite ends the input of the other side.
func (c *sshConn) CloseWrite() error { return ignoreClosed(c.in.Close()) }

// CloseRead ends the output of the other side.
func (c *sshConn) CloseRead() error { return ignoreClosed(c.out.Close()) }

// Close implements [net.Conn]. It does not wait for the process.
func (c *sshConn) Close() error {
	err := errors.Join(c.CloseWrite(), c.CloseRead())
	c.kill.Do(func() {
		_ = c.cmd.Process.Kill() // it may have ended
		go func() { _ = c.wait() }()
	})
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// sshAddr is the address of both sides.
type sshAddr struct{}

func (sshAddr) Network() string { return "ssh" }

func (sshAddr) String() string { return "ssh" }

// LocalAddr implements [net.Conn].
func (*sshConn) LocalAddr() net.Addr { return sshAddr{} }

// RemoteAddr implements [net.Conn].
func (*sshConn) RemoteAddr() net.Addr { return sshAddr{} }

// SetDeadline implements [net.Conn].
func (c *sshConn) SetDeadline(t time.Time) error {
	return errors.Join(c.out.SetReadDeadline(t), c.in.SetWriteDeadline(t))
}

// SetReadDeadline implements [net.Conn].
func (c *sshConn) SetReadDeadline(t time.Time) error { return c.out.SetReadDeadline(t) }

// SetWriteDeadline implements [net.Conn].
func (c *sshConn) SetWriteDeadline(t time.Time) error { return c.in.SetWriteDeadline(t) }
