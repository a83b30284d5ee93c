// Package server is a host of the internet that probes are made against. It
// says by what name it was called.
package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"time"
)

// Mark begins every answer.
const Mark = "served"

// Serve listens at an address until the context ends: HTTP at 80, HTTPS at 443,
// anything by TCP at 22, and anything by UDP at 53, 123 and 443.
func Serve(ctx context.Context, ip string) error {
	certificate, err := selfSigned()
	if err != nil {
		return err
	}
	var listen net.ListenConfig
	listener := func(port string) net.Listener {
		l, listenErr := listen.Listen(ctx, "tcp4", net.JoinHostPort(ip, port))
		err = errors.Join(err, listenErr)
		if listenErr != nil {
			return nil
		}
		context.AfterFunc(ctx, func() { _ = l.Close() })
		return l
	}
	web, secure, raw := listener("80"), listener("443"), listener("22")
	var packets []net.PacketConn
	for _, port := range []string{"53", "123", "443"} {
		p, listenErr := listen.ListenPacket(ctx, "udp4", net.JoinHostPort(ip, port))
		if err = errors.Join(err, listenErr); listenErr == nil {
			context.AfterFunc(ctx, func() { _ = p.Close() })
			packets = append(packets, p)
		}
	}
	if err != nil {
		return fmt.Errorf("serving at %s: %w", ip, err)
	}
	s := &http.Server{
		Handler: http.HandlerFunc(answer), ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = s.Serve(web) }()
	go func() { _ = s.ServeTLS(secure, "", "") }()
	go greet(raw)
	for _, p := range packets {
		go echo(p)
	}
	return nil
}

func answer(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "" {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: raw\r\nConnection: Upgrade\r\n\r\n%s upgraded\n", Mark)
			_ = conn.Close()
		}
		return
	}
	sni := ""
	if r.TLS != nil {
		sni = r.TLS.ServerName
	}
	_, _ = fmt.Fprintf(w, "%s host=%s sni=%s proto=%s path=%s\n", Mark, r.Host, sni, r.Proto, r.URL.Path)
}

func greet(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = fmt.Fprintf(conn, "%s raw\n", Mark)
		_ = conn.Close()
	}
}

func echo(p net.PacketConn) {
	buffer := make([]byte, 2048)
	for {
		n, from, err := p.ReadFrom(buffer)
		if err != nil {
			return
		}
		_, _ = p.WriteTo(buffer[:n], from)
	}
}

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"*.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
