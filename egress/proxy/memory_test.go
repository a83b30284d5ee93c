package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/egress"
)

// maxLive is what a sandbox may make the proxy hold, in bytes: half of what its
// container has.
const maxLive = 128 << 20

// live is what the heap holds.
func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Requests and handshakes that never end, on every port, with as much in them as is
// read at all. The bound holds however many there are.
func TestMemoryOfHalfOpenConnections(t *testing.T) {
	l := newLab(t, []string{"allowed.example"})
	before := live()
	header := "X: " + strings.Repeat("x", maxHeader-1024)
	request := "GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n" + header
	hello := "\x16\x03\x01\x3f\xff\x01\x00\xff\xff\x03\x03" + strings.Repeat("x", maxHello-1024)
	var group sync.WaitGroup
	var mu sync.Mutex
	var held []net.Conn
	for range 16 {
		group.Go(func() {
			for range 50 {
				for listener, text := range map[net.Listener]string{l.at.Proxy: request, l.at.HTTP: request, l.at.Routes: request, l.at.TLS: hello} {
					conn, err := net.Dial("tcp", listener.Addr().String())
					if err != nil {
						continue
					}
					_, _ = io.WriteString(conn, text) // most are closed at once
					mu.Lock()
					held = append(held, conn)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	assert.Assert(t, len(held) > 3000, len(held))
	used := live() - before
	t.Logf("%d connections: %d MiB", len(held), used>>20)
	assert.Check(t, used < maxLive, "%d MiB", used>>20)
	for _, conn := range held {
		_ = conn.Close()
	}
	l.servePlain(t, "allowed.example:80", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
	poll.WaitOn(t, func(poll.LogT) poll.Result { // others go on as soon as there is room
		response, err := l.client(t).Get("http://allowed.example/")
		if err != nil {
			return poll.Continue("%v", err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return poll.Continue("%s", response.Status)
		}
		return poll.Success()
	})
}

// The hosts of long requests are remembered, and not the requests.
func TestMemoryOfRememberedHosts(t *testing.T) {
	counted, refused := newStats(), newRefusedLog()
	before := live()
	for i := range maxCounted {
		request := fmt.Sprintf("host%d.example", i) + strings.Repeat("x", maxHeader)
		host, _, _ := strings.Cut(request, "x")
		counted.of(host, 80)
		refused.add("http", egress.Verdict{Host: host, Port: 80}, false)
	}
	used := int64(live()) - int64(before)
	assert.Check(t, used < 4<<20, "%d MiB", used>>20)
	runtime.KeepAlive(counted)
	runtime.KeepAlive(refused)
}
