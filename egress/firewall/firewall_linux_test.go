package firewall_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/egress/firewall"
)

// namespace moves the test into a new network namespace, whose only
// interface leads nowhere: what is let out is not answered.
func namespace(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a network namespace needs root")
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	assert.NilError(t, unix.Unshare(unix.CLONE_NEWNET))
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", "eth0", "type", "veth", "peer", "name", "other"},
		{"link", "set", "other", "up"},
		{"link", "set", "eth0", "up"},
		{"addr", "add", "10.9.0.5/24", "dev", "eth0"},
		{"-6", "addr", "add", "fd00::5/64", "dev", "eth0", "nodad"},
		{"route", "add", "default", "via", "10.9.0.1"},
		{"neigh", "add", "10.9.0.1", "lladdr", "02:00:00:00:00:01", "dev", "eth0"},
		{"neigh", "add", "10.9.0.2", "lladdr", "02:00:00:00:00:02", "dev", "eth0"},
		{"neigh", "add", "10.9.0.3", "lladdr", "02:00:00:00:00:03", "dev", "eth0"},
		{"neigh", "add", "fd00::2", "lladdr", "02:00:00:00:00:02", "dev", "eth0"},
	} {
		out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput()
		assert.NilError(t, err, "%q: %s", args, out)
	}
}

// refused reports whether the firewall has rejected a packet. Other packets get no answer.
func refused(t *testing.T, network, address string) bool {
	t.Helper()
	conn, err := net.DialTimeout(network, address, 100*time.Millisecond)
	if err == nil {
		defer func() { _ = conn.Close() }()
		assert.NilError(t, conn.SetDeadline(time.Now().Add(100*time.Millisecond)))
		if _, err = conn.Write([]byte("x")); err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
	}
	switch netErr := net.Error(nil); {
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.EPERM):
		return true
	case errors.As(err, &netErr) && netErr.Timeout():
		return false
	}
	t.Errorf("%s %s: %v", network, address, err)
	return false
}

func marked() *net.Dialer {
	return &net.Dialer{Timeout: 100 * time.Millisecond, Control: func(_, _ string, c syscall.RawConn) (err error) {
		ctlErr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, firewall.Mark) })
		return errors.Join(ctlErr, err)
	}}
}

func TestRules(t *testing.T) {
	for _, tc := range []struct {
		name       string
		near       []netip.Prefix
		out, never [][2]string
	}{
		{
			name: "open",
			near: []netip.Prefix{netip.MustParsePrefix("198.51.100.64/26")},
			// The test is root, as the engine's resolver is.
			out: [][2]string{{"tcp", "203.0.113.1:443"}, {"udp", "203.0.113.1:443"}, {"tcp", "203.0.113.1:22"}, {"tcp", "198.51.100.1:443"}, {"udp", "10.9.0.3:53"}, {"tcp", "10.9.0.3:53"}},
			never: [][2]string{
				{"tcp", "10.9.0.2:3128"},
				{"tcp", "169.254.169.254:80"},
				{"tcp", "100.100.100.200:80"},
				{"tcp", "172.17.0.1:22"},
				{"tcp", "198.51.100.65:443"},
				{"udp", "198.51.100.65:443"},
				{"tcp", "192.168.1.1:80"},
				{"udp", "192.168.1.1:5353"},
				{"udp", "[fd00::2]:443"},
				{"tcp", "[fd00::2]:443"},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			namespace(t)
			for _, to := range tc.never {
				assert.Assert(t, !refused(t, to[0], to[1]), "without the firewall, %s is reachable", to)
			}
			assert.NilError(t, firewall.Apply(tc.near))
			assert.NilError(t, firewall.Apply(tc.near), "a second time")
			for _, to := range tc.out {
				assert.Check(t, !refused(t, to[0], to[1]), "%s is let out", to)
			}
			for _, to := range tc.never {
				assert.Check(t, refused(t, to[0], to[1]), "%s is refused", to)
			}
			conn, err := marked().Dial("tcp", tc.never[0][1])
			netErr, ok := errors.AsType[net.Error](err)
			assert.Check(t, ok && netErr.Timeout(), "%v %v: what is marked is not answered", conn, err)
			local, err := net.Listen("tcp", "127.0.0.1:0")
			assert.NilError(t, err)
			conn, err = net.Dial("tcp", local.Addr().String())
			assert.NilError(t, err)
			assert.NilError(t, conn.Close())
			assert.NilError(t, local.Close())
		})
	}
}
