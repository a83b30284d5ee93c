package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"testing"

	"gotest.tools/v3/assert"
)

// benchSize is what one download of the throughput benchmarks has.
const benchSize = 64 << 20

// ways are the three to reach a host: past the proxy, by CONNECT, by SNI.
func ways(b *testing.B, l *lab, server net.Listener) map[string]*http.Transport {
	b.Helper()
	to := func(listener net.Listener) func(context.Context, string, string) (net.Conn, error) {
		return func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", listener.Addr().String())
		}
	}
	config := &tls.Config{RootCAs: l.ca, MinVersion: tls.VersionTLS12}
	return map[string]*http.Transport{
		"direct":  {TLSClientConfig: config, DialContext: to(server)},
		"connect": {TLSClientConfig: config, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: l.at.Proxy.Addr().String()})},
		"sni":     {TLSClientConfig: config, DialContext: to(l.at.TLS)},
	}
}

func download(b *testing.B, client *http.Client, size int64) {
	b.Helper()
	response, err := client.Get("https://allowed.example/")
	assert.NilError(b, err)
	n, err := io.Copy(io.Discard, response.Body)
	assert.NilError(b, err)
	assert.Equal(b, n, size)
	_ = response.Body.Close()
}

// BenchmarkThroughput downloads over HTTPS on loopback. Compare MB/s.
func BenchmarkThroughput(b *testing.B) {
	l := newLab(b, []string{"allowed.example"})
	piece := make([]byte, 1<<20)
	server := l.serveTLS(b, "allowed.example", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(benchSize))
		for range benchSize / len(piece) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}))
	transports := ways(b, l, server.Listener)
	for _, way := range []string{"direct", "connect", "sni"} {
		b.Run(way, func(b *testing.B) {
			client := &http.Client{Transport: transports[way]}
			defer client.CloseIdleConnections()
			download(b, client, benchSize)
			b.SetBytes(benchSize)
			for b.Loop() {
				download(b, client, benchSize)
			}
		})
	}
}

// BenchmarkNewConnection is one small request over a new connection. Compare
// ns/op.
func BenchmarkNewConnection(b *testing.B) {
	l := newLab(b, []string{"allowed.example"})
	server := l.serveTLS(b, "allowed.example", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "x")
	}))
	transports := ways(b, l, server.Listener)
	for _, way := range []string{"direct", "connect", "sni"} {
		b.Run(way, func(b *testing.B) {
			transports[way].DisableKeepAlives = true
			client := &http.Client{Transport: transports[way]}
			for b.Loop() {
				download(b, client, 1)
			}
		})
	}
}
