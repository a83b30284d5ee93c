package host

import (
	"crypto/x509"
	"fmt"
	"io"
	"os"
)

// certificatesMax bounds a file of certificates, in bytes.
const certificatesMax = 2 << 20

// Certificates are what the user's own programs trust besides, or instead of,
// what the machine does: those of a company, say. The proxy trusts them too,
// where it encrypts itself.
func (h Host) Certificates() string {
	path := h.Getenv("SSL_CERT_FILE")
	if path == "" {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		h.Report(fmt.Sprintf("Warning: SSL_CERT_FILE has no effect: %v", err))
		return ""
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, certificatesMax+1))
	switch {
	case err != nil:
		h.Report(fmt.Sprintf("Warning: SSL_CERT_FILE has no effect: %v", err))
	case len(text) > certificatesMax:
		h.Report(fmt.Sprintf("Warning: SSL_CERT_FILE has no effect: it has more than %d bytes", certificatesMax))
	case !x509.NewCertPool().AppendCertsFromPEM(text):
		h.Report("Warning: SSL_CERT_FILE has no effect: there is no certificate in it")
	default:
		return string(text)
	}
	return ""
}
