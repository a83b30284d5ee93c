package proxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/internal/testutil/output"
)

// lab is a proxy with an internet behind it: names that lead to addresses, and
// servers at them. The servers are on loopback, which the proxy would refuse;
// so the lab's dialer checks the address that a name has here, then connects to
// where the server really is.
type lab struct {
	*Server
	at  *Listeners
	log *output.Buffer

	mu    sync.Mutex
	names map[string]netip.Addr // of hosts; public when missing
	real  map[string]string     // "host:port" to a listener
	dials map[string]int        // "host:port"

	ca    *x509.CertPool
	caKey tls.Certificate
}

const publicAddr = "203.0.113.10"

// newLab starts a proxy that allows the rules. prepare may change its config.
func newLab(tb testing.TB, rules []string, prepare ...func(*Config)) *lab {
	tb.Helper()
	l := &lab{log: &output.Buffer{}, names: map[string]netip.Addr{}, real: map[string]string{}, dials: map[string]int{}}
	l.caKey, l.ca = newCA(tb)
	policy := egress.Policy{Mode: egress.Allowlist}
	for _, text := range rules {
		rule, err := egress.ParseRule(text)
		assert.NilError(tb, err)
		policy.Rules = append(policy.Rules, egress.Entry{Rule: rule, Origin: "test"})
	}
	config := Config{
		Start: egress.Start{Address: netip.MustParseAddr("127.0.0.1"), Policy: policy},
		Log:   l.log, Dial: l.dialHost, Roots: l.ca, Resolve: l.resolveHost,
		Own: []netip.Addr{netip.MustParseAddr("203.0.113.99")},
	}
	for _, f := range prepare {
		f(&config)
	}
	server, err := New(config)
	assert.NilError(tb, err)
	l.Server = server
	l.at = listenLoopback(tb)
	done := make(chan error, 1)
	ctx := tb.Context()
	go func() { done <- server.Serve(ctx, l.at) }()
	tb.Cleanup(func() { assert.NilError(tb, <-done) })
	return l
}

// withShortHelloTimeout is for tests in which the ClientHello never comes.
func withShortHelloTimeout(c *Config) { c.HelloTimeout = 50 * time.Millisecond }

func listenLoopback(tb testing.TB) *Listeners {
	tb.Helper()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		assert.NilError(tb, err)
		return l
	}
	dns, err := net.ListenPacket("udp", "127.0.0.1:0")
	assert.NilError(tb, err)
	control, err := net.Listen("unix", filepath.Join(tb.TempDir(), "control"))
	assert.NilError(tb, err)
	return &Listeners{Proxy: listen(), HTTP: listen(), TLS: listen(), Routes: listen(), DNSOverTCP: listen(), DNS: dns, Control: control}
}

func (l *lab) resolveHost(_ context.Context, host string) ([]netip.Addr, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if addr, ok := l.names[strings.TrimSuffix(host, ".")]; ok {
		return []netip.Addr{addr}, nil
	}
	return []netip.Addr{netip.MustParseAddr(publicAddr)}, nil
}

func (l *lab) dialHost(ctx context.Context, host string, port uint16, check func(netip.Addr) error) (net.Conn, error) {
	target := fmt.Sprintf("%s:%d", host, port)
	addrs, _ := l.resolveHost(ctx, host)
	if err := check(addrs[0]); err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	l.mu.Lock()
	l.dials[target]++
	address, ok := l.real[target]
	l.mu.Unlock()
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

func (l *lab) dialled(target string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dials[target]
}

// put says where a host and port really are.
func (l *lab) put(target string, listener net.Listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.real[target] = listener.Addr().String()
}

// point says which address a name has.
func (l *lab) point(host, addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names[host] = netip.MustParseAddr(addr)
}

// serveTLS makes an HTTPS server for a name, with HTTP/2.
func (l *lab) serveTLS(tb testing.TB, host string, handler http.Handler) *httptest.Server {
	tb.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{l.certificate(tb, host)}}
	server.EnableHTTP2 = true
	server.StartTLS()
	tb.Cleanup(server.Close)
	l.put(host+":443", server.Listener)
	return server
}

func (l *lab) servePlain(tb testing.TB, target string, handler http.Handler) *httptest.Server {
	tb.Helper()
	server := httptest.NewServer(handler)
	tb.Cleanup(server.Close)
	l.put(target, server.Listener)
	return server
}

// client is one that was told of the proxy.
func (l *lab) client(tb testing.TB) *http.Client {
	tb.Helper()
	transport := &http.Transport{
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: l.at.Proxy.Addr().String()}),
		TLSClientConfig:   &tls.Config{RootCAs: l.ca, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}
	tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// dial connects to one of the proxy's ports.
func dial(tb testing.TB, listener net.Listener) net.Conn {
	tb.Helper()
	conn, err := net.Dial("tcp", listener.Addr().String())
	assert.NilError(tb, err)
	tb.Cleanup(func() { _ = conn.Close() })
	assert.NilError(tb, conn.SetDeadline(time.Now().Add(20*time.Second)))
	return conn
}

// exchange sends bytes and returns all that comes back.
func exchange(tb testing.TB, listener net.Listener, send string) string {
	tb.Helper()
	conn := dial(tb, listener)
	_, err := io.WriteString(conn, send)
	assert.NilError(tb, err)
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

func get(tb testing.TB, client *http.Client, address string) (int, string) {
	tb.Helper()
	response, err := client.Get(address)
	assert.NilError(tb, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	assert.NilError(tb, err)
	return response.StatusCode, string(body)
}

func hello(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s %s", text, r.Proto, r.Host)
	})
}

// decisions are the lines of the log.
func (l *lab) decisions(tb testing.TB) []egress.Decision {
	tb.Helper()
	var all []egress.Decision
	for line := range strings.Lines(l.log.String()) {
		var d egress.Decision
		assert.NilError(tb, json.Unmarshal([]byte(line), &d), line)
		assert.Assert(tb, !d.Time.IsZero() && d.Via != "" && d.Why != "", line)
		all = append(all, d)
	}
	return all
}

func (l *lab) lastDecision(tb testing.TB) egress.Decision {
	tb.Helper()
	all := l.decisions(tb)
	assert.Assert(tb, len(all) > 0, "nothing was logged")
	return all[len(all)-1]
}

// statsOf waits until the counters are as wanted.
func (l *lab) waitStats(tb testing.TB, host string, want func(egress.HostStats) bool) {
	tb.Helper()
	poll.WaitOn(tb, func(poll.LogT) poll.Result {
		var got egress.HostStats
		for _, h := range l.stats.list() {
			if h.Host == host {
				got = h
			}
		}
		if want(got) {
			return poll.Success()
		}
		return poll.Continue("%+v", got)
	}, poll.WithTimeout(10*time.Second), poll.WithDelay(5*time.Millisecond))
}

func newCA(tb testing.TB) (tls.Certificate, *x509.CertPool) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NilError(tb, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	assert.NilError(tb, err)
	cert, err := x509.ParseCertificate(der)
	assert.NilError(tb, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: cert}, pool
}

// certificate is one of the lab's authority for names.
func (l *lab) certificate(tb testing.TB, names ...string) tls.Certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NilError(tb, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), DNSNames: names}
	der, err := x509.CreateCertificate(rand.Reader, template, l.caKey.Leaf, &key.PublicKey, l.caKey.PrivateKey)
	assert.NilError(tb, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// clientHello is what a TLS client says first.
func clientHello(tb testing.TB, config *tls.Config) []byte {
	tb.Helper()
	ours, theirs := net.Pipe()
	go func() {
		_ = tls.Client(theirs, config).Handshake()
		_ = theirs.Close()
	}()
	header := make([]byte, 5)
	_, err := io.ReadFull(ours, header)
	assert.NilError(tb, err)
	body := make([]byte, int(header[3])<<8|int(header[4]))
	_, err = io.ReadFull(ours, body)
	assert.NilError(tb, err)
	_ = ours.Close()
	return slices.Concat(header, body)
}
