package slowlink

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// delay is long beside what a connection on one machine takes.
const delay = 20 * time.Millisecond

// serve runs a server that answers each connection, and returns a link to it.
func serve(t *testing.T, network string, delay time.Duration, answer func(conn net.Conn)) *Link {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	listener, err := net.Listen(network, address)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				answer(conn)
				_ = conn.Close()
			}()
		}
	}()
	link, err := Listen(t.Context(), "127.0.0.1:0", network, listener.Addr().String(), delay)
	assert.NilError(t, err)
	t.Cleanup(link.Close)
	return link
}

func echo(conn net.Conn) { _, _ = io.Copy(conn, conn) }

func dial(t *testing.T, link *Link) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", link.Addr())
	assert.NilError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	assert.NilError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn
}

// ask sends a byte and waits for the answer.
func ask(t *testing.T, conn net.Conn) {
	t.Helper()
	var got [1]byte
	_, err := conn.Write([]byte("a"))
	assert.NilError(t, err)
	_, err = io.ReadFull(conn, got[:])
	assert.NilError(t, err)
}

func TestRoundTripsAreCountedAndDelayed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		answer func(net.Conn)
		client func(t *testing.T, link *Link)
		want   Stats
	}{
		{
			name:   "one request",
			answer: echo,
			client: func(t *testing.T, link *Link) { ask(t, dial(t, link)) },
			want:   Stats{Connections: 1, RoundTrips: 2, Sequential: 2, Sent: 1, Received: 1},
		},
		{
			name:   "three requests on a connection",
			answer: echo,
			client: func(t *testing.T, link *Link) {
				conn := dial(t, link)
				for range 3 {
					ask(t, conn)
				}
			},
			want: Stats{Connections: 1, RoundTrips: 4, Sequential: 4, Sent: 3, Received: 3},
		},
		{
			name:   "one connection after the other",
			answer: echo,
			client: func(t *testing.T, link *Link) {
				ask(t, dial(t, link))
				ask(t, dial(t, link))
			},
			want: Stats{Connections: 2, RoundTrips: 4, Sequential: 4, Sent: 2, Received: 2},
		},
		{
			name:   "the server speaks first",
			answer: func(conn net.Conn) { _, _ = conn.Write([]byte("hello")) },
			client: func(t *testing.T, link *Link) {
				got, err := io.ReadAll(dial(t, link))
				assert.NilError(t, err)
				assert.Equal(t, string(got), "hello")
			},
			want: Stats{Connections: 1, RoundTrips: 2, Sequential: 2, Received: 5},
		},
		{
			name: "an answer to the end of the request",
			answer: func(conn net.Conn) {
				got, err := io.ReadAll(conn)
				_, _ = fmt.Fprint(conn, string(got), err)
			},
			client: func(t *testing.T, link *Link) {
				conn := dial(t, link)
				_, err := conn.Write([]byte("all"))
				assert.NilError(t, err)
				assert.NilError(t, conn.(*net.TCPConn).CloseWrite())
				got, err := io.ReadAll(conn)
				assert.NilError(t, err)
				assert.Equal(t, string(got), "all<nil>")
			},
			want: Stats{Connections: 1, RoundTrips: 2, Sequential: 2, Sent: 3, Received: 8},
		},
	} {
		for _, network := range []string{"tcp", "unix"} {
			t.Run(tc.name+" "+network, func(t *testing.T) {
				t.Parallel()
				link := serve(t, network, delay, tc.answer)
				started := time.Now()
				tc.client(t, link)
				took := time.Since(started)
				assert.DeepEqual(t, link.Stats(), tc.want)
				atLeast := time.Duration(tc.want.Sequential) * 2 * delay
				assert.Check(t, took >= atLeast, "%v, want at least %v", took, atLeast)
			})
		}
	}
}

// Round trips of connections that are used at the same time are counted once in
// Sequential: the second connection is set up before the first has its answer.
func TestParallelRoundTripsAreNotSequential(t *testing.T) {
	t.Parallel()
	link := serve(t, "tcp", 200*time.Millisecond, echo)
	first, second := dial(t, link), dial(t, link)
	for _, conn := range []net.Conn{first, second} {
		_, err := conn.Write([]byte("a"))
		assert.NilError(t, err)
	}
	for _, conn := range []net.Conn{first, second} {
		_, err := io.ReadFull(conn, make([]byte, 1))
		assert.NilError(t, err)
	}
	stats := link.Stats()
	assert.Equal(t, stats.RoundTrips, 4)
	assert.Check(t, stats.Sequential < 4, "%+v", stats)
}

// The delay is that of each byte, not of each packet: requests that do not wait for
// answers take one round trip together.
func TestBandwidthDoesNotSuffer(t *testing.T) {
	t.Parallel()
	const long = 200 * time.Millisecond
	link := serve(t, "tcp", long, echo)
	sent := make([]byte, 8<<20)
	_, _ = rand.Read(sent)
	conn := dial(t, link)
	started := time.Now()
	go func() {
		_, _ = conn.Write(sent)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	assert.NilError(t, err)
	assert.Check(t, bytes.Equal(got, sent))
	took := time.Since(started)
	chunks := len(sent) / chunkSize
	assert.Check(t, took < time.Duration(chunks)*long/2, "%v", took)
}

// The limit is that of all connections together.
func TestBandwidthIsLimited(t *testing.T) {
	t.Parallel()
	const rate, size = 4 << 20, 1 << 20
	link := serve(t, "tcp", 0, echo)
	link.SetBandwidth(rate)
	started := time.Now()
	var connections sync.WaitGroup
	for range 2 {
		conn := dial(t, link)
		connections.Go(func() {
			_, _ = conn.Write(make([]byte, size))
			_ = conn.(*net.TCPConn).CloseWrite()
		})
		connections.Go(func() {
			n, err := io.Copy(io.Discard, conn)
			assert.Check(t, err)
			assert.Check(t, is.Equal(n, int64(size)))
		})
	}
	connections.Wait()
	took, atLeast := time.Since(started), 2*size*time.Second/rate-burst
	assert.Check(t, took >= atLeast, "%v, want at least %v", took, atLeast)
}

func TestDelayCanBeChanged(t *testing.T) {
	t.Parallel()
	link := serve(t, "tcp", 0, echo)
	conn := dial(t, link)
	ask(t, conn)
	link.SetDelay(delay)
	started := time.Now()
	ask(t, conn)
	took := time.Since(started)
	assert.Check(t, took >= 2*delay, "%v", took)
}

func TestCutResetsConnectionsAndRefusesNewOnes(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	link := serve(t, "tcp", delay, func(conn net.Conn) {
		_, err := io.Copy(conn, conn)
		ended <- err
	})
	conn := dial(t, link)
	ask(t, conn)
	link.Cut()
	_, err := conn.Read(make([]byte, 1))
	assert.Check(t, is.ErrorIs(err, syscall.ECONNRESET))
	assert.Check(t, is.ErrorIs(<-ended, syscall.ECONNRESET))
	_, err = net.Dial("tcp", link.Addr())
	assert.Check(t, is.ErrorIs(err, syscall.ECONNREFUSED))
	link.Cut()

	assert.NilError(t, link.Restore())
	assert.NilError(t, link.Restore())
	ask(t, dial(t, link))
	assert.Equal(t, link.Stats().Connections, 2)
}

func TestFrozenDataArrivesAfterRestore(t *testing.T) {
	t.Parallel()
	received := make(chan string, 2)
	link := serve(t, "tcp", delay, func(conn net.Conn) {
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			received <- lines.Text()
			_, _ = fmt.Fprintln(conn, lines.Text())
		}
	})
	conn := dial(t, link)
	answers := bufio.NewReader(conn)
	exchange := func(line string, wait func()) {
		_, err := fmt.Fprintln(conn, line)
		assert.NilError(t, err)
		wait()
		got, err := answers.ReadString('\n')
		assert.NilError(t, err)
		assert.Equal(t, got, line+"\n")
		assert.Equal(t, <-received, line)
	}
	exchange("before", func() {})
	link.Freeze()
	link.Freeze()
	exchange("while frozen", func() {
		assert.NilError(t, conn.SetReadDeadline(time.Now().Add(4*delay)))
		_, err := answers.Peek(1)
		var timeout net.Error
		assert.Assert(t, errors.As(err, &timeout) && timeout.Timeout(), "%v", err)
		assert.Equal(t, len(received), 0)
		assert.NilError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		assert.NilError(t, link.Restore())
	})
}

// A link that is frozen can be cut and closed.
func TestCutEndsAFrozenConnection(t *testing.T) {
	t.Parallel()
	link := serve(t, "tcp", 0, echo)
	conn := dial(t, link)
	ask(t, conn)
	link.Freeze()
	_, err := conn.Write([]byte("a"))
	assert.NilError(t, err)
	link.Cut()
	_, err = conn.Read(make([]byte, 1))
	assert.Check(t, is.ErrorIs(err, syscall.ECONNRESET))
}

func TestUnreachableTargetResetsTheConnection(t *testing.T) {
	t.Parallel()
	link, err := Listen(t.Context(), "127.0.0.1:0", "unix", filepath.Join(t.TempDir(), "missing"), 0)
	assert.NilError(t, err)
	t.Cleanup(link.Close)
	conn, err := net.Dial("tcp", link.Addr())
	if err == nil { // the reset came after the handshake
		_, err = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
	assert.Check(t, is.ErrorIs(err, syscall.ECONNRESET))
}

func TestSince(t *testing.T) {
	t.Parallel()
	later := Stats{Connections: 3, RoundTrips: 9, Sequential: 7, Sent: 50, Received: 60}
	before := Stats{Connections: 1, RoundTrips: 4, Sequential: 3, Sent: 20, Received: 10}
	assert.DeepEqual(t, later.Since(before), Stats{Connections: 2, RoundTrips: 5, Sequential: 4, Sent: 30, Received: 50})
}
