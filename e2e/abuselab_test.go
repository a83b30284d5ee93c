//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/e2e/abuse/server"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/internal/testutil/output"
)

// The network around an engine that the probes attack.

// lab is a small internet around an engine: hosts that shall be reached and
// hosts that shall not be, all of which are there.
type lab struct {
	program   string         // the probes
	forbidden string         // a public address with servers
	gateway   string         // this machine, as the engine's sees it
	bridge    string         // the engine's machine, as its containers see it
	address   string         // the engine's machine, as this one sees it
	port      string         // of services on these three
	neighbour string         // another container of the engine
	server    string         // its name, and that of the network on which it is a public host
	packets   *output.Buffer // what came to this machine from the engine's
}

const metadataAddress = "169.254.169.254"

// buildProbes builds the program that runs the probes.
func buildProbes(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "abuse")
	assert.NilError(t, goTool(shared.root, runtime.GOOS, "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./e2e/abuse/program"))
	return program
}

// installProbes puts the program into the sandbox's worktree, where git ignores it.
func (w *world) installProbes(t *testing.T, program string) (inside string) {
	t.Helper()
	inside = w.pathInside(t, ".ralph/abuse")
	assert.NilError(t, os.MkdirAll(filepath.Dir(inside), 0o755))
	assert.NilError(t, copyProgram(program, inside))
	if !w.hasClone() {
		w.chown(t, filepath.Dir(inside))
	}
	return inside
}

// newLab needs root, for the addresses.
func newLab(t *testing.T, w *world, program string) *lab {
	t.Helper()
	if os.Getuid() != 0 {
		skipOrFail(t, "only root can give this machine the addresses of others")
	}
	w.engine.Alone(t, "metadata")
	l := &lab{program: w.installProbes(t, program), gateway: w.engine.Gateway, packets: sniff(t)}
	l.forbidden = publicAddress(t)
	assert.NilError(t, server.Serve(t.Context(), l.forbidden))
	inEngine(t, w.engine, func() error {
		ip := func(ctx context.Context, do string) error {
			out, err := exec.CommandContext(ctx, "ip", "addr", do, metadataAddress+"/32", "dev", "lo").CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		}
		if err := ip(t.Context(), "replace"); err != nil {
			return err
		}
		t.Cleanup(func() { inEngine(t, w.engine, func() error { return ip(context.WithoutCancel(t.Context()), "del") }) })
		if err := server.Serve(t.Context(), metadataAddress); err != nil {
			return err
		}
		var err error
		if l.port, err = serveAnything(t, "0.0.0.0:0"); err != nil {
			return err
		}
		if l.bridge, err = addressOf("docker0"); err == nil {
			l.address, err = addressOf("eth0")
		}
		return err
	})
	_, err := serveAnything(t, net.JoinHostPort(l.gateway, l.port))
	assert.NilError(t, err)
	return l
}

// publish runs a server with public and private addresses, and makes it the
// internet of a sandbox's proxy.
func (l *lab) publish(t *testing.T, w *world) {
	t.Helper()
	l.server = "ralph-test-abuse-" + strings.ToLower(rand.Text()[:10])
	private := l.server + "-private"
	w.ok(t, "shell", "--", "true") // starts the proxy
	proxy := w.sandbox(t).Name + ".egress"
	t.Cleanup(func() {
		for _, args := range [][]string{{"rm", "-f", l.server}, {"network", "disconnect", "-f", l.server, proxy}, {"network", "disconnect", "-f", private, proxy}} {
			run(t, w.docker(args...)) // the sandbox may be removed
		}
		run(t, w.docker("network", "rm", l.server, private)).expect(t, 0)
	})
	for tries := 0; ; tries++ {
		subnet := fmt.Sprintf("198.51.100.%d/29", 8*lessThan(t, 16))
		res := run(t, w.docker("network", "create", "--subnet", subnet, l.server))
		if res.code == 0 {
			break
		}
		assert.Assert(t, tries < 16 && strings.Contains(res.stderr, "overlap"), res.stderr)
	}
	for _, args := range [][]string{
		{"network", "create", private},
		{
			"run", "-d", "--name", l.server, "--network", l.server, "--network-alias", "allowed.example", "--network-alias", "blocked.example",
			"-v", l.program + ":/abuse:ro", engines.BaseImage(), "/abuse", "serve", "0.0.0.0",
		},
		{"network", "connect", "--alias", "private.example", private, l.server},
		{"network", "connect", "bridge", l.server},
		{"network", "connect", l.server, proxy},
		{"network", "connect", private, proxy},
	} {
		run(t, w.docker(args...)).expect(t, 0)
	}
	l.neighbour = strings.TrimSpace(run(t, w.docker("inspect", "-f", "{{.NetworkSettings.Networks.bridge.IPAddress}}", l.server)).expect(t, 0).stdout)
	assert.Assert(t, l.neighbour != "")
}

// variables are those with which the probes find what they look for.
func (l *lab) variables(w *world, secret, markers string, memory, pids int) []string {
	name, _ := os.Hostname()
	uid, gid, _ := strings.Cut(w.insideUser(), ":")
	return []string{
		"AGENT_UID=" + uid, "AGENT_GID=" + gid, "MACHINE_NAME=" + name,
		"FORBIDDEN=" + l.forbidden, "HOST_GATEWAY=" + l.gateway, "HOST_BRIDGE=" + l.bridge, "HOST_ADDRESS=" + l.address, "HOST_PORT=" + l.port,
		"NEIGHBOUR=" + l.neighbour, "ENGINE_SOCKET=" + strings.TrimPrefix(w.engine.Host, "unix://"),
		"HOST_HOME=" + w.home, "HOST_CONFIG=" + w.config, "SECRET_FILES=" + strings.Join(w.secretFiles(), " "), "MARKERS=" + markers,
		"SECRET=" + secret, "MEMORY=" + strconv.Itoa(memory), "PIDS=" + strconv.Itoa(pids),
	}
}

// lessThan returns a number below another one.
func lessThan(t *testing.T, n int64) int64 {
	t.Helper()
	i, err := rand.Int(rand.Reader, big.NewInt(n))
	assert.NilError(t, err)
	return i.Int64()
}

// publicAddress assigns this machine an address outside of the private ranges,
// and that no other test has just now.
func publicAddress(t *testing.T) string {
	t.Helper()
	for range 20 {
		address := fmt.Sprintf("198.51.100.%d", 128+lessThan(t, 126))
		out, err := exec.CommandContext(t.Context(), "ip", "addr", "add", address+"/32", "dev", "lo").CombinedOutput()
		if err == nil {
			t.Cleanup(func() {
				assert.Check(t, exec.CommandContext(context.WithoutCancel(t.Context()), "ip", "addr", "del", address+"/32", "dev", "lo").Run())
			})
			return address
		}
		// The kernel's words for it differ by its version.
		assert.Assert(t, isAssigned(t, address), "%s", out)
	}
	t.Fatal("no address is free")
	return ""
}

// isAssigned reports whether this machine has an address.
func isAssigned(t *testing.T, address string) bool {
	t.Helper()
	all, err := net.InterfaceAddrs()
	assert.NilError(t, err)
	return slices.ContainsFunc(all, func(a net.Addr) bool { return a.String() == address+"/32" })
}

// inEngine calls f in the network namespace of an engine.
func inEngine(t *testing.T, e engines.Engine, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked, so that the thread ends
		ns, err := os.Open("/run/netns/ralph-" + e.Name)
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			_ = ns.Close()
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	assert.NilError(t, <-done)
}

func addressOf(device string) (string, error) {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return "", err
	}
	addrs, err := i.Addrs()
	if err != nil {
		return "", err
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			return p.Addr().String(), nil
		}
	}
	return "", fmt.Errorf("%s has no address", device)
}

// serveAnything accepts connections and answers packets. It returns the port.
func serveAnything(t *testing.T, at string) (port string, err error) {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp4", at)
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { _ = listener.Close() })
	packets, err := config.ListenPacket(t.Context(), "udp4", listener.Addr().String())
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { _ = packets.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	go func() {
		buffer := make([]byte, 2048)
		for {
			n, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(buffer[:n], from)
		}
	}()
	_, port, err = net.SplitHostPort(listener.Addr().String())
	return port, err
}

// secretMark begins every secret.
const secretMark = "abusesecret"

// sniff collects every packet with a secret that arrives at this machine or goes
// through it.
func sniff(t *testing.T) *output.Buffer {
	t.Helper()
	const all = 0x0300 // ETH_P_ALL, in the order of the network
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	assert.NilError(t, err)
	wait := unix.NsecToTimeval((100 * time.Millisecond).Nanoseconds())
	assert.NilError(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait))
	packets, ended := &output.Buffer{}, make(chan struct{})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() {
		defer close(ended)
		buffer := make([]byte, 65536)
		for ctx.Err() == nil {
			n, _, err := unix.Recvfrom(fd, buffer, 0)
			if err == nil && bytes.Contains(buffer[:n], []byte(secretMark)) {
				_, _ = packets.Write(buffer[:n])
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended; _ = unix.Close(fd) })
	return packets
}
