package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/docker-ralph/docker-ralph/egress"
)

// upstream reaches hosts through the proxy that the user's machine needs to
// reach the internet. The user chose it: where it is may be private.
type upstream struct {
	choose func(*url.URL) (*url.URL, error)
	dial   DialFunc
	roots  *x509.CertPool
}

func newUpstream(config egress.Upstream, dial DialFunc, roots *x509.CertPool) (*upstream, error) {
	for _, address := range []egress.Secret{config.HTTP, config.HTTPS} {
		if _, err := url.Parse(string(address)); err != nil {
			return nil, errors.New("the host's proxy is not a URL")
		}
	}
	c := httpproxy.Config{HTTPProxy: string(config.HTTP), HTTPSProxy: string(config.HTTPS), NoProxy: config.No}
	return &upstream{choose: c.ProxyFunc(), dial: dial, roots: roots}, nil
}

// secure returns the proxy for a tunnel to a host, or nil.
func (u *upstream) secure(host string, port uint16) *url.URL { return u.forScheme("https", host, port) }

// plain returns the proxy for plain HTTP to a host, or nil.
func (u *upstream) plain(host string, port uint16) *url.URL { return u.forScheme("http", host, port) }

func (u *upstream) forScheme(scheme, host string, port uint16) *url.URL {
	through, err := u.choose(&url.URL{Scheme: scheme, Host: net.JoinHostPort(host, strconv.Itoa(int(port)))})
	if err != nil {
		return nil
	}
	return through
}

// forRequest is for a transport: plain requests go to the proxy as they are,
// the others through a tunnel that the transport knows nothing of.
func (u *upstream) forRequest(r *http.Request) (*url.URL, error) {
	e := outboundOf(r)
	if !e.plain {
		return nil, nil
	}
	return u.plain(e.verdict.Host, e.verdict.Port), nil
}

// dialTCP connects to the proxy.
func (u *upstream) dialTCP(ctx context.Context, through *url.URL) (net.Conn, error) {
	port := uint16(80)
	if through.Scheme == "https" {
		port = 443
	}
	if text := through.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return nil, errors.New("reaching the host's proxy: invalid port")
		}
		port = uint16(n)
	}
	conn, err := u.dial(ctx, through.Hostname(), port, func(netip.Addr) error { return nil })
	if err != nil {
		return nil, fmt.Errorf("reaching the host's proxy: %s", networkError(err))
	}
	return conn, nil
}

// tunnel asks the proxy for a connection to the host.
func (u *upstream) tunnel(ctx context.Context, through *url.URL, host string, port uint16) (net.Conn, error) {
	conn, err := u.dialTCP(ctx, through)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(dialTimeout))
	if through.Scheme == "https" {
		secured := tls.Client(conn, &tls.Config{ServerName: through.Hostname(), RootCAs: u.roots, MinVersion: tls.VersionTLS12})
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("reaching the host's proxy: %w", err)
		}
		conn = secured
	}
	if err := askTunnel(conn, through, net.JoinHostPort(host, strconv.Itoa(int(port)))); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("asking the host's proxy: %w", err)
	}
	_ = conn.SetDeadline(time.Time{})
	return conn, nil
}

func askTunnel(conn net.Conn, through *url.URL, target string) error {
	header := http.Header{}
	if password, ok := through.User.Password(); ok || through.User.Username() != "" {
		pair := through.User.Username() + ":" + password
		header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	ask := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: header}
	if err := ask.Write(conn); err != nil {
		return err
	}
	// One byte at a time, so that nothing of what follows is lost in a buffer.
	answer, err := http.ReadResponse(bufio.NewReaderSize(&singleBytes{conn: conn, left: maxHeader}, 16), ask)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("unexpected status %s", answer.Status)
	}
	return nil
}

// singleBytes reads no more than asked for, and no more than a header has.
type singleBytes struct {
	conn net.Conn
	left int
}

func (s *singleBytes) Read(p []byte) (int, error) {
	if s.left--; s.left < 0 {
		return 0, errors.New("response header too long")
	}
	return s.conn.Read(p[:1])
}
