package host

import (
	"bytes"
	"encoding/pem"
	"net/http/httptest"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/fs"

	"github.com/docker-ralph/docker-ralph/config"
)

func TestCertificates(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	good := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for _, tc := range []struct{ name, content, want, warning string }{
		{"certificates", good, good, ""},
		{"none in it", "nothing\n", "", "SSL_CERT_FILE has no effect: no certificate in PEM format"},
		{"too much", good + string(bytes.Repeat([]byte("\n"), config.MaxCertificates)), "", "larger than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var said bytes.Buffer
			path := fs.NewFile(t, "authorities", fs.WithContent(tc.content)).Path()
			h := Host{LookupEnv: func(name string) (string, bool) { return path, name == "SSL_CERT_FILE" }, Stderr: &said}
			assert.Equal(t, h.Certificates(), tc.want)
			assert.Assert(t, is.Contains(said.String(), tc.warning))
			assert.Equal(t, said.Len() > 0, tc.warning != "")
		})
	}
	var said bytes.Buffer
	h := Host{LookupEnv: func(string) (string, bool) { return "/no/such/file", true }, Stderr: &said}
	assert.Equal(t, h.Certificates(), "")
	assert.Assert(t, is.Contains(said.String(), "SSL_CERT_FILE has no effect"))
}
