package host

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
)

// certificatesMax bounds a file of certificates, in bytes.
const certificatesMax = 2 << 20

// Certificates returns the certificates in SSL_CERT_FILE, which the user's own programs trust:
// those of a company, for example. The proxy trusts them for its own connections.
func (h Host) Certificates() string {
	path := h.Getenv("SSL_CERT_FILE")
	if path == "" {
		return ""
	}
	certificates, err := readCertificates(path)
	if err != nil {
		h.Report(fmt.Sprintf("Warning: SSL_CERT_FILE has no effect: %v", err))
	}
	return certificates
}

func readCertificates(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, certificatesMax+1))
	switch {
	case err != nil:
		return "", err
	case len(content) > certificatesMax:
		return "", fmt.Errorf("it has more than %d bytes", certificatesMax)
	case !x509.NewCertPool().AppendCertsFromPEM(content):
		return "", errors.New("there is no certificate in it")
	}
	return string(content), nil
}
