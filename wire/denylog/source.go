package denylog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"
)

// timeout bounds a request. A dead proxy delays the loop that long.
const timeout = time.Second

// maxHeader bounds the header of an answer, in bytes.
const maxHeader = 4 << 10

// Source is a proxy with the mark of its last answer.
type Source struct {
	url  *url.URL
	mark string
}

// At returns the proxy at an address, the value of [Env], or nil without one.
func At(address string) *Source {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil
	}
	return &Source{url: u}
}

// Next returns the connections blocked since the last successful call; the first
// call returns none. Errors are ignored.
func (s *Source) Next(ctx context.Context) Answer {
	answer, err := s.ask(ctx)
	if err != nil {
		return Answer{}
	}
	s.mark = answer.Mark
	return answer
}

// ask does without net/http and crypto/tls: nothing else in ralph links them, and every
// command pays for their size at its start. An answer of HTTP/1.0 ends with the connection.
func (s *Source) ask(ctx context.Context) (Answer, error) {
	u := *s.url
	u.RawQuery = ""
	if s.mark != "" {
		u.RawQuery = url.Values{Since: {s.mark}}.Encode()
	}
	conn, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return Answer{}, err
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", u.RequestURI(), u.Host); err != nil {
		return Answer{}, err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, maxHeader+maxSize+1))
	if err != nil {
		return Answer{}, err
	}
	header, body, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
	if status := bytes.Fields(header); len(status) < 2 || string(status[1]) != "200" {
		return Answer{}, errors.New("the proxy has no deny log")
	}
	return Read(body)
}
