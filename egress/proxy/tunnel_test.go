package proxy

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/egress"
)

func TestWebSocket(t *testing.T) {
	l := newLab(t, []string{"allowed.example"})
	l.serveTLS(t, "allowed.example", echoAfterUpgrade())
	config := &tls.Config{ServerName: "allowed.example", RootCAs: l.ca}
	t.Run("through CONNECT", func(t *testing.T) {
		conn, status, _ := connectTo(t, l, "allowed.example:443")
		assert.Equal(t, status, 200)
		speakWebSocket(t, tls.Client(conn, config), "/")
	})
	t.Run("by server name", func(t *testing.T) {
		speakWebSocket(t, tls.Client(dial(t, l.at.TLS), config), "/")
	})
}

// echoAfterUpgrade is a server that upgrades, then sends back what it gets.
func echoAfterUpgrade() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			_, _ = io.WriteString(w, "no upgrade")
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		_, _ = io.Copy(conn, rw)
	})
}

func speakWebSocket(t *testing.T, conn net.Conn, path string) {
	t.Helper()
	_, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: allowed.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEC==\r\n\r\n")
	assert.NilError(t, err)
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, nil)
	assert.NilError(t, err)
	defer func() { _ = answer.Body.Close() }()
	assert.Equal(t, answer.StatusCode, http.StatusSwitchingProtocols)
	for _, frame := range []string{"one", "two and more"} {
		_, err = io.WriteString(conn, frame)
		assert.NilError(t, err)
		back := make([]byte, len(frame))
		_, err = io.ReadFull(reader, back)
		assert.NilError(t, err)
		assert.Equal(t, string(back), frame)
	}
}

func TestConnectToOtherPortsIsRaw(t *testing.T) {
	l := newLab(t, []string{"db.example:5432"})
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	t.Cleanup(func() { _ = echo.Close() })
	go func() {
		conn, err := echo.Accept()
		if err == nil {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	l.put("db.example:5432", echo)
	conn, status, _ := connectTo(t, l, "db.example:5432")
	assert.Equal(t, status, 200)
	_, err = io.WriteString(conn, "not TLS at all")
	assert.NilError(t, err)
	assert.NilError(t, conn.(*net.TCPConn).CloseWrite())
	back, err := io.ReadAll(conn)
	assert.NilError(t, err)
	assert.Equal(t, string(back), "not TLS at all")
	l.waitStats(t, "db.example", func(h egress.HostStats) bool { return h.Sent == 14 && h.Received == 14 && h.Allowed == 1 })
}

func TestConnectToOtherPortsComparesNamesInTLS(t *testing.T) {
	l := newLab(t, []string{"allowed.example:8443"})
	server := l.serveTLS(t, "allowed.example", hello("hello"))
	l.put("allowed.example:8443", server.Listener)
	conn, status, _ := connectTo(t, l, "allowed.example:8443")
	assert.Equal(t, status, 200)
	assert.NilError(t, tls.Client(conn, &tls.Config{ServerName: "allowed.example", RootCAs: l.ca}).Handshake())
	for name, config := range map[string]*tls.Config{
		"another name": {ServerName: "blocked.example"},
		"no name":      {InsecureSkipVerify: true},
	} {
		t.Run(name, func(t *testing.T) {
			conn, status, _ := connectTo(t, l, "allowed.example:8443")
			assert.Equal(t, status, 200)
			assert.Assert(t, tls.Client(conn, config).Handshake() != nil)
			assert.Equal(t, l.lastDecision(t).Decision, egress.Refused)
		})
	}
}

func TestHostsThatSpeakFirst(t *testing.T) {
	l := newLab(t, []string{"mail.example:25"})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "220 hello\r\n")
		_, _ = io.Copy(conn, conn)
		_ = conn.Close()
	}()
	l.put("mail.example:25", listener)
	conn, status, _ := connectTo(t, l, "mail.example:25")
	assert.Equal(t, status, 200)
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	assert.NilError(t, err)
	assert.Equal(t, line, "220 hello\r\n")
	_, err = io.WriteString(conn, "EHLO\r\n")
	assert.NilError(t, err)
	line, err = reader.ReadString('\n')
	assert.NilError(t, err)
	assert.Equal(t, line, "EHLO\r\n")
}
