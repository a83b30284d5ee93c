// Package tlsengine serves the socket of a Docker Engine by TCP and TLS, as an engine on another
// machine does: both sides have certificates.
package tlsengine

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Serve serves a socket at a port of the loopback address until the listener is closed. Clients reach
// it at another IP address. Their certificates are written to a directory, as for DOCKER_CERT_PATH.
func Serve(ctx context.Context, socket, certs string, ip net.IP) (net.Listener, error) {
	config, err := makeCertificates(certs, ip)
	if err != nil {
		return nil, err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go serve(ctx, conn.(*tls.Conn), socket)
		}
	}()
	return listener, nil
}

// serve connects a client with a certificate to the engine, as the engine's own listener would:
// each side learns when the other has sent everything.
func serve(ctx context.Context, in *tls.Conn, socket string) {
	defer func() { _ = in.Close() }()
	if in.HandshakeContext(ctx) != nil {
		return // the client sees the reason
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return
	}
	out := conn.(*net.UnixConn)
	defer func() { _ = out.Close() }()
	var ways sync.WaitGroup
	ways.Go(func() {
		_, _ = io.Copy(out, in) // a failure ends both ways
		_ = out.CloseWrite()
	})
	ways.Go(func() {
		_, _ = io.Copy(in, out)
		_ = in.CloseWrite()
	})
	ways.Wait()
}

// makeCertificates writes the client's certificates and returns the server's configuration.
func makeCertificates(dir string, ip net.IP) (*tls.Config, error) {
	ca := &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, err
	}
	sign := func(usage x509.ExtKeyUsage) (cert tls.Certificate, keyDER []byte, err error) {
		leaf := *ca
		leaf.IsCA, leaf.KeyUsage, leaf.ExtKeyUsage = false, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{usage}
		leaf.IPAddresses = []net.IP{ip}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return cert, nil, err
		}
		der, err := x509.CreateCertificate(rand.Reader, &leaf, ca, &key.PublicKey, caKey)
		if err == nil {
			keyDER, err = x509.MarshalECPrivateKey(key)
		}
		return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, keyDER, err
	}
	user, userKey, err := sign(x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	server, _, err := sign(x509.ExtKeyUsageServerAuth)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(
		writePEM(filepath.Join(dir, "ca.pem"), "CERTIFICATE", caDER),
		writePEM(filepath.Join(dir, "cert.pem"), "CERTIFICATE", user.Certificate[0]),
		writePEM(filepath.Join(dir, "key.pem"), "EC PRIVATE KEY", userKey),
	); err != nil {
		return nil, err
	}
	authority, err := x509.ParseCertificate(caDER)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(authority)
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	}, nil
}

func writePEM(path, kind string, der []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
