package host

import (
	"fmt"

	"github.com/docker-ralph/docker-ralph/config"
)

// Certificates returns the certificates in SSL_CERT_FILE, which the user's own programs trust.
// The proxy trusts them for its own connections.
func (h Host) Certificates() string {
	path := h.Getenv("SSL_CERT_FILE")
	if path == "" {
		return ""
	}
	certificates, err := config.ReadCertificates(path)
	if err != nil {
		h.Warn(fmt.Errorf("SSL_CERT_FILE has no effect: %w", err))
	}
	return certificates
}
