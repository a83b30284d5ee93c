package projectimage

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/cli/cli/connhelper"
	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

// buildThrough builds an agent's image and a layer with files over another
// connection to e.
func (e *testEngine) buildThrough(t *testing.T, c *client.Client) {
	t.Helper()
	defer func() { _ = c.Close() }()
	w := e.workshop(t, map[string]string{sandboxDockerfile: head + "COPY tools /srv/\nRUN test -f /srv/hammer\n", "tools/hammer": "hit"})
	w.Engine = c
	built := w.mustDispatch(t)
	assert.Assert(t, built.Built)
	assert.Equal(t, e.run(t, built.Ref, "cat /srv/hammer"), "hit")
}

func TestEngineBehindTLS(t *testing.T) {
	onEngines(t, func(t *testing.T, e *testEngine) {
		certificate := writeCertificate(t)
		proxy := e.listenTLS(t, certificate)
		c, err := client.New(client.WithHost("tcp://"+proxy), client.WithTLSClientConfig(certificate.file, certificate.file, certificate.key))
		assert.NilError(t, err)
		e.buildThrough(t, c)
	})
}

// certificate is one for a server at 127.0.0.1 and its client, which trust
// nothing else.
type certificate struct {
	file, key string
	pool      *x509.CertPool
	pair      tls.Certificate
}

func writeCertificate(t *testing.T) certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.NilError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	assert.NilError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	assert.NilError(t, err)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})

	dir := t.TempDir()
	made := certificate{file: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"), pool: x509.NewCertPool()}
	assert.NilError(t, os.WriteFile(made.file, certPEM, 0o600))
	assert.NilError(t, os.WriteFile(made.key, keyPEM, 0o600))
	assert.Assert(t, made.pool.AppendCertsFromPEM(certPEM))
	made.pair, err = tls.X509KeyPair(certPEM, keyPEM)
	assert.NilError(t, err)
	return made
}

// listenTLS passes on connections of clients with the certificate to e's own
// socket, and returns where.
func (e *testEngine) listenTLS(t *testing.T, c certificate) (address string) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, // as dockerd's listener settles on
		Certificates: []tls.Certificate{c.pair}, ClientCAs: c.pool, ClientAuth: tls.RequireAndVerifyClientCert,
	})
	assert.NilError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go pass(t.Context(), from, strings.TrimPrefix(e.host, "unix://"))
		}
	}()
	return listener.Addr().String()
}

// pass copies both ways until one side ends.
func pass(ctx context.Context, from net.Conn, socket string) {
	defer func() { _ = from.Close() }()
	to, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			done <- struct{}{}
		}()
	}
	<-done
}

// TestEngineBehindSSH has an ssh that runs the far command here.
func TestEngineBehindSSH(t *testing.T) {
	onEachAlone(t, func(t *testing.T, e *testEngine) {
		bin := t.TempDir()
		log := filepath.Join(bin, "log")
		ssh := "#!/bin/sh\nprintf '%s\\n' \"$*\" >>'" + log + "'\nexec docker -H '" + e.host + "' system dial-stdio\n"
		assert.NilError(t, os.WriteFile(filepath.Join(bin, "ssh"), []byte(ssh), 0o700))
		t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))

		helper, err := connhelper.GetConnectionHelper("ssh://me@far.example")
		assert.NilError(t, err)
		c, err := client.New(client.WithHost(helper.Host), client.WithDialContext(helper.Dialer))
		assert.NilError(t, err)
		e.buildThrough(t, c)
		calls, err := os.ReadFile(log)
		assert.NilError(t, err)
		assert.Assert(t, cmp.Regexp(`(?m)-l me .*far\.example -?-? ?docker system dial-stdio$`, string(calls)))
	})
}
