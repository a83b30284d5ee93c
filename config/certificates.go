package config

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// MaxCertificates bounds a file of certificates, in bytes.
const MaxCertificates = 1 << 20

// setCertificates reads the certificates at once, so that a mistake is an error before
// anything is created.
func setCertificates(c *Config, path string) (err error) {
	c.Sandbox.CA = ""
	switch {
	case path == "":
		return nil
	case !filepath.IsAbs(path):
		return errors.New(`must be an absolute path, such as "/etc/ssl/company.pem"`)
	}
	c.Sandbox.CA, err = ReadCertificates(path)
	return err
}

// ReadCertificates returns the certificates of a PEM file, and nothing else of it, such as
// private keys. Certificates that Go rejects are left out.
func ReadCertificates(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, MaxCertificates+1))
	if err != nil {
		return "", err
	}
	if len(content) > MaxCertificates {
		return "", fmt.Errorf("larger than %d bytes", MaxCertificates)
	}

	var certificates bytes.Buffer
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err == nil {
			_ = pem.Encode(&certificates, &pem.Block{Type: block.Type, Bytes: block.Bytes})
		}
	}
	if certificates.Len() == 0 {
		return "", errors.New("no certificate in PEM format")
	}
	return certificates.String(), nil
}
