package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// maxHello bounds what is read before the name is known.
const maxHello = 16 << 10

var (
	errNotTLS  = errors.New("not TLS")
	errNoName  = errors.New("TLS without a server name (SNI)")
	errTooLong = errors.New("ClientHello too long")
)

// readHello reads a ClientHello and returns the server name in it with every
// byte that was read, to be sent on. crypto/tls does the reading, so that it is
// as strict as a real server: what comes in pieces is put together, and what is
// malformed or says two names is an error.
func readHello(r io.Reader) (name string, read []byte, err error) {
	sip := &sipConn{from: io.LimitReader(r, maxHello)}
	seen := false
	server := tls.Server(sip, &tls.Config{
		MinVersion: tls.VersionTLS10, // nothing is agreed on here: that is for the host
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			seen, name = true, info.ServerName
			return nil, io.EOF // enough
		},
	})
	_, err = server.Read(nil) // which shakes hands first
	read = sip.read.Bytes()
	switch {
	case seen && name == "":
		return "", read, errNoName
	case seen:
		return name, read, nil
	case len(read) >= maxHello:
		return "", read, errTooLong
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "", read, errors.New("no ClientHello in time")
	}
	return "", read, errNotTLS
}

// sipConn lets a TLS server read, keeps what it read, and lets it say nothing.
type sipConn struct {
	from io.Reader
	read bytes.Buffer
}

func (c *sipConn) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.read.Write(p[:n])
	return n, err
}

func (c *sipConn) Write(p []byte) (int, error)      { return len(p), nil }
func (c *sipConn) Close() error                     { return nil }
func (c *sipConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *sipConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *sipConn) SetDeadline(time.Time) error      { return nil }
func (c *sipConn) SetReadDeadline(time.Time) error  { return nil }
func (c *sipConn) SetWriteDeadline(time.Time) error { return nil }

// accessDenied is the fatal alert 49 in a record of TLS 1.2, which is what all
// versions use before they have agreed on one.
const accessDenied = "\x15\x03\x03\x00\x02\x02\x31"

// reportDenied sends the alert and sees to it that it arrives: closing a
// connection with unread bytes would reset it, and the alert be lost.
func reportDenied(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(conn, accessDenied); err != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.CopyN(io.Discard, conn, maxHello)
}
