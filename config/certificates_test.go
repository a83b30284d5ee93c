package config

import (
	"bytes"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestCertificates(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	der := server.Certificate().Raw
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	broken := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("broken")}))
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")}))
	for _, tc := range []struct{ name, content, want, err string }{
		{"one", certificate, certificate, ""},
		{"two without a last newline", certificate + strings.TrimSpace(certificate), certificate + certificate, ""},
		{"comments and a key", "# the company's\n" + key + certificate, certificate, ""},
		{"one of them is broken", broken + certificate, certificate, ""},
		{"empty", "", "", "no certificate in PEM format"},
		{"DER", string(der), "", "no certificate in PEM format"},
		{"only a key", key, "", "no certificate in PEM format"},
		{"only a broken one", broken, "", "no certificate in PEM format"},
		{"too large", certificate + string(bytes.Repeat([]byte("\n"), MaxCertificates)), "", "larger than 1048576 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ca.pem")
			assert.NilError(t, os.WriteFile(path, []byte(tc.content), 0o600))
			e, err := loadCA(t, userFile, path)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, e.Sandbox.CA, tc.want)
		})
	}
}

func TestCertificatesOfNoFile(t *testing.T) {
	for path, want := range map[string]string{
		"company.pem":                          "must be an absolute path",
		filepath.Join(t.TempDir(), "none.pem"): "none.pem",
		t.TempDir():                            "not a regular file",
	} {
		_, err := loadCA(t, userFile, path)
		assert.ErrorContains(t, err, want)
	}
	e, err := loadCA(t, userFile, "")
	assert.NilError(t, err)
	assert.Equal(t, e.Sandbox.CA, "")
}

// A repository cannot add certificates, nor have a file of the user read.
func TestCertificatesOfTheRepository(t *testing.T) {
	_, err := loadCA(t, repositoryFile, filepath.Join(t.TempDir(), "none.pem"))
	assert.ErrorContains(t, err, "allowed only in your own configuration")
}

// loadCA loads a configuration file with sandbox.ca.
func loadCA(t *testing.T, file, path string) (Effective, error) {
	t.Helper()
	dir := t.TempDir()
	assert.NilError(t, os.WriteFile(filepath.Join(dir, file), []byte("[sandbox]\nca = "+strconv.Quote(path)+"\n"), 0o600))
	if file == repositoryFile {
		return Load(Sources{Root: dir})
	}
	return Load(Sources{UserDir: dir})
}
