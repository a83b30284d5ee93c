package guest

import (
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// A proxy that starts late is reached, and one that ends is missed at once.
func TestForwardsPortsToSockets(t *testing.T) {
	const address = "127.83.17.9"
	dir, port, dns := t.TempDir(), 18080, 18053
	assert.NilError(t, forwardProxy(t.Context(), address, dir, dns, port, dns))
	ask := func() string {
		conn, err := net.Dial("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		assert.NilError(t, err)
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "question")
		_ = conn.(*net.TCPConn).CloseWrite()
		answer, _ := io.ReadAll(conn)
		return string(answer)
	}
	query := func() []byte {
		conn, err := net.Dial("udp", net.JoinHostPort(address, strconv.Itoa(dns)))
		assert.NilError(t, err)
		defer func() { _ = conn.Close() }()
		assert.NilError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = conn.Write([]byte("AB\x01\x00????????"))
		assert.NilError(t, err)
		answer := make([]byte, 512)
		n, err := conn.Read(answer)
		assert.NilError(t, err)
		return answer[:n]
	}
	assert.Equal(t, ask(), "")
	assert.DeepEqual(t, query(), []byte("AB\x81\x02????????"))

	for range 2 { // a proxy that is replaced
		var open []net.Listener
		for number, serve := range map[int]func(net.Conn){
			port: func(c net.Conn) { _, _ = io.Copy(c, c) },
			dns: func(c net.Conn) {
				var length [2]byte
				_, _ = io.ReadFull(c, length[:])
				got := make([]byte, binary.BigEndian.Uint16(length[:]))
				_, _ = io.ReadFull(c, got)
				_, _ = c.Write(append([]byte{0, 6}, got[:6]...))
			},
		} {
			l, err := net.Listen("unix", filepath.Join(dir, strconv.Itoa(number)))
			assert.NilError(t, err)
			open = append(open, l)
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() { defer func() { _ = c.Close() }(); serve(c) }()
				}
			}()
		}
		assert.Equal(t, ask(), "question")
		assert.DeepEqual(t, query(), []byte("AB\x01\x00??"))
		assert.DeepEqual(t, query(), []byte("AB\x01\x00??")) // the connection was closed
		for _, l := range open {
			assert.NilError(t, l.Close())
		}
		assert.Equal(t, ask(), "")
	}
	// Nothing else can listen there.
	_, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	assert.ErrorContains(t, err, "in use")
}
