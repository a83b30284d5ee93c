package container_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// attempts is a program for a sandbox: each argument is a way out to be tried,
// "KIND HOST PORT", and it prints which of them lead anywhere.
const attempts = `
use Socket; use Socket qw(inet_pton AF_INET6 pack_sockaddr_in6); $| = 1;
sub tcp {
	my ($host, $port, $device) = @_;
	my $v6 = $host =~ /:/;
	socket(my $s, $v6 ? AF_INET6 : PF_INET, SOCK_STREAM, 0) or return 0;
	if ($device) { setsockopt($s, SOL_SOCKET, 25, pack("Z*", $device)) or return 0 }
	my $open = 0;
	local $SIG{ALRM} = sub { die "slow\n" };
	eval {
		alarm 1;
		$open = 1 if connect($s, $v6 ? pack_sockaddr_in6($port, inet_pton(AF_INET6, $host)) : pack_sockaddr_in($port, inet_aton($host)));
		alarm 0;
	};
	return $open;
}
sub udp {
	my ($host, $port, $say, $device) = @_;
	socket(my $s, PF_INET, SOCK_DGRAM, 0);
	if ($device) { setsockopt($s, SOL_SOCKET, 25, pack("Z*", $device)) or return 0 }
	send($s, $say, 0, pack_sockaddr_in($port, inet_aton($host)));
	return 0; # the other side knows
}
sub web {
	my ($proxy, $line) = @_;
	socket(my $s, PF_INET, SOCK_STREAM, 0);
	local $SIG{ALRM} = sub { die "slow\n" };
	eval { alarm 1; my $there = connect($s, pack_sockaddr_in(3128, inet_aton($proxy))); alarm 0; $there } or return "no proxy";
	send($s, "$line HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 0);
	my $said = <$s>;
	$said =~ s/\s+$//;
	return $said;
}
for (@ARGV) {
	my ($kind, @rest) = split / /, $_, 3;
	my $open = $kind eq "tcp" ? tcp(@rest)
		: $kind eq "device" ? tcp(@rest, "eth0")
		: $kind eq "udp" ? udp(split(/ /, $rest[1], 2) == 2 ? ($rest[0], split(/ /, $rest[1], 2)) : ())
		: $kind eq "dns" ? (gethostbyname($rest[0]) ? 1 : 0)
		: $kind eq "web" ? web($rest[0], $rest[1]) : die $kind;
	print "$_: $open\n";
}
`

// open returns those of the attempts that lead somewhere.
func open(output string) []string {
	var found []string
	for line := range strings.Lines(output) {
		if what, ok := strings.CutSuffix(line, ": 1\n"); ok {
			found = append(found, what)
		}
	}
	return found
}

// inside calls f in the network namespace of an engine.
func inside(t *testing.T, e engines.Engine, f func()) {
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
			f()
		}
		done <- err
	}()
	assert.NilError(t, <-done)
}

// recorder has the packets that were received.
type recorder struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (h *recorder) add(p []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, _ = h.all.Write(p)
}

func (h *recorder) contains(text string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return bytes.Contains(h.all.Bytes(), []byte(text))
}

func (h *recorder) await(t *testing.T, text string) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if h.contains(text) {
			return poll.Success()
		}
		return poll.Continue("%q was not received", text)
	}, poll.WithTimeout(5*time.Second), poll.WithDelay(10*time.Millisecond))
}

// machine is the engine's machine, with services that must not be reachable.
type machine struct {
	addrs []netip.Addr // of the machine, and that of the one it is on
	port  uint16       // of a service on all of them, by TCP and by UDP
	udp   *recorder    // what came there by UDP
}

func newMachine(t *testing.T, e engines.Engine) *machine {
	t.Helper()
	m := &machine{udp: &recorder{}}
	var err error
	inside(t, e, func() {
		if err = m.listen(t, "0.0.0.0"); err != nil {
			return
		}
		// Others come and go with the tests beside this one.
		for _, name := range []string{"eth0", "docker0"} {
			var device *net.Interface
			var addrs []net.Addr
			if device, err = net.InterfaceByName(name); err == nil {
				addrs, err = device.Addrs()
			}
			for _, a := range addrs {
				if p, parseErr := netip.ParsePrefix(a.String()); parseErr == nil && p.Addr().Is4() {
					m.addrs = append(m.addrs, p.Addr())
				}
			}
		}
	})
	assert.NilError(t, err)
	assert.NilError(t, m.listen(t, e.Gateway))
	m.addrs = append(m.addrs, netip.MustParseAddr(e.Gateway))
	return m
}

// listen serves at the machine's port, and the first time chooses it.
func (m *machine) listen(t *testing.T, at string) error {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp4", fmt.Sprintf("%s:%d", at, m.port))
	if err != nil {
		return err
	}
	m.port = netip.MustParseAddrPort(listener.Addr().String()).Port()
	packets, err := config.ListenPacket(t.Context(), "udp4", fmt.Sprintf("%s:%d", at, m.port))
	if err != nil {
		return err
	}
	t.Cleanup(func() { _, _ = listener.Close(), packets.Close() })
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
		buffer := make([]byte, 1500)
		for {
			n, _, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			m.udp.add(buffer[:n])
		}
	}()
	return nil
}

// tap hears everything that leaves the engines' machines.
func tap(t *testing.T) *recorder {
	t.Helper()
	const all = 0x0300 // ETH_P_ALL, in the order of the network
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	assert.NilError(t, err)
	wait := unix.NsecToTimeval((100 * time.Millisecond).Nanoseconds())
	assert.NilError(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait))
	h, ended := &recorder{}, make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		buffer := make([]byte, 65536)
		for ctx.Err() == nil {
			n, from, err := unix.Recvfrom(fd, buffer, 0)
			if link, ok := from.(*unix.SockaddrLinklayer); err != nil || !ok || link.Pkttype == unix.PACKET_OUTGOING || !bytes.Contains(buffer[:n], []byte("nonce")) {
				continue
			}
			h.add(buffer[:n])
		}
	}()
	t.Cleanup(func() { cancel(); <-ended; _ = unix.Close(fd) })
	return h
}

// nonce is a new name. It has no dots, as DNS writes
// them otherwise.
func nonce() string { return "nonce" + strings.ToLower(rand.Text()[:12]) }

// plain runs the attempts in an ordinary container.
func plain(t *testing.T, api *client.Client, args ...string) string {
	t.Helper()
	made, err := api.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config: &container.Config{Image: engines.BaseImage(), Entrypoint: append([]string{"perl", "-e", attempts}, args...)},
	})
	assert.NilError(t, err)
	defer remove(t, api, made.ID)
	wait := api.ContainerWait(t.Context(), made.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	_, err = api.ContainerStart(t.Context(), made.ID, client.ContainerStartOptions{})
	assert.NilError(t, err)
	select {
	case err := <-wait.Error:
		assert.NilError(t, err)
	case <-wait.Result:
	}
	logs, err := api.ContainerLogs(t.Context(), made.ID, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true})
	assert.NilError(t, err)
	defer func() { _ = logs.Close() }()
	var out bytes.Buffer
	_, err = stdcopy.StdCopy(&out, &out, logs)
	assert.NilError(t, err)
	return out.String()
}

// serve runs a web server on a separate network, where it has some names, and
// has a proxy join it: to that, it is the internet.
func serve(t *testing.T, api *client.Client, proxy string, names ...string) {
	t.Helper()
	const server = `
		use Socket; socket(my $l, PF_INET, SOCK_STREAM, 0); bind($l, pack_sockaddr_in(80, INADDR_ANY)); listen($l, 5);
		$| = 1; print "it listens\n";
		while (accept(my $c, $l)) { sysread($c, my $request, 4096); syswrite($c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"); close $c }`
	name := "ralph-test-" + nonce()
	made, err := api.NetworkCreate(t.Context(), name, client.NetworkCreateOptions{Driver: "bridge"})
	assert.NilError(t, err)
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		_, _ = api.NetworkDisconnect(ctx, made.ID, client.NetworkDisconnectOptions{Container: proxy, Force: true})
		_, err := api.NetworkRemove(ctx, made.ID, client.NetworkRemoveOptions{})
		assert.Check(t, err)
	})
	c, err := api.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config:           &container.Config{Image: engines.BaseImage(), Entrypoint: []string{"perl", "-e", server}},
		HostConfig:       &container.HostConfig{NetworkMode: container.NetworkMode(name)},
		NetworkingConfig: &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{name: {Aliases: names}}},
	})
	assert.NilError(t, err)
	t.Cleanup(func() { remove(t, api, c.ID) })
	_, err = api.ContainerStart(t.Context(), c.ID, client.ContainerStartOptions{})
	assert.NilError(t, err)
	_, err = api.NetworkConnect(t.Context(), made.ID, client.NetworkConnectOptions{Container: proxy})
	assert.NilError(t, err)
	awaitLog(t, api, c.ID, "it listens")
}

// awaitLog waits until a container has said something.
func awaitLog(t *testing.T, api *client.Client, id, text string) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		logs, err := api.ContainerLogs(t.Context(), id, client.ContainerLogsOptions{ShowStdout: true})
		if err != nil {
			return poll.Error(err)
		}
		defer func() { _ = logs.Close() }()
		said, err := io.ReadAll(logs)
		if err != nil || !bytes.Contains(said, []byte(text)) {
			return poll.Continue("it says %q (%v)", said, err)
		}
		return poll.Success()
	}, poll.WithTimeout(time.Minute))
}

// publish adds a public address to this machine, for as
// long as the test runs, and serves there.
func (m *machine) publish(t *testing.T, e engines.Engine) string {
	t.Helper()
	last := 1
	for _, c := range []byte(e.Name) {
		last = last*31%250 + int(c)%4 + 1
	}
	public := fmt.Sprintf("203.0.113.%d", last)
	ip := func(ctx context.Context, do string) {
		out, err := exec.CommandContext(ctx, "ip", "addr", do, public+"/32", "dev", "lo").CombinedOutput()
		assert.Check(t, err, "%s", out)
	}
	ip(t.Context(), "replace") // a run that was killed has left it
	t.Cleanup(func() { ip(context.WithoutCancel(t.Context()), "del") })
	assert.NilError(t, m.listen(t, public))
	return public
}

// publicNetwork makes a network of the engine's with public addresses, which an
// engine may well have, and returns that of its machine there.
func publicNetwork(t *testing.T, e engines.Engine) string {
	t.Helper()
	api := e.Client(t)
	subnet := netip.MustParsePrefix("192.0.2.0/28")
	made, err := api.NetworkCreate(t.Context(), "ralph-test-"+nonce(), client.NetworkCreateOptions{
		Driver: "bridge", IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet}}},
	})
	assert.NilError(t, err)
	t.Cleanup(func() {
		_, err := api.NetworkRemove(context.WithoutCancel(t.Context()), made.ID, client.NetworkRemoveOptions{})
		assert.Check(t, err)
	})
	return subnet.Addr().Next().String()
}
