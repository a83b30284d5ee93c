// Package plainhttp queries the proxy of a sandbox. It does without net/http and
// crypto/tls: nothing else in ralph links them, and every command pays for their size at
// its start.
package plainhttp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"
)

const (
	// Timeout bounds a request. A dead proxy delays the caller that long.
	Timeout = time.Second
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 4 << 10
)

// Parse parses an http URL, or returns nil.
func Parse(address string) *url.URL {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil
	}
	return u
}

// Get returns the body of a successful answer. A body of more than maxBody bytes may be
// longer than that, and incomplete.
func Get(ctx context.Context, u *url.URL, maxBody int64) ([]byte, error) {
	conn, err := (&net.Dialer{Timeout: Timeout}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(Timeout)); err != nil {
		return nil, err
	}
	// An answer of HTTP/1.0 ends with the connection.
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", u.RequestURI(), u.Host); err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, maxHeader+maxBody+1))
	if err != nil {
		return nil, err
	}
	header, body, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
	if status := bytes.Fields(header); len(status) < 2 || string(status[1]) != "200" {
		return nil, fmt.Errorf("the proxy does not serve %s", u.Path)
	}
	return body, nil
}
