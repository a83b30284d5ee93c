package container

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// The answers are what Podman 4.3.1 and Docker 20.10 have said, shortened.
func TestPodmanIsRejectedBeforeCreation(t *testing.T) {
	const host = "unix:///run/podman/podman.sock"
	for name, tc := range map[string]struct{ info, version, err string }{
		"podman": {
			info:    `{"ServerVersion":"4.3.1","DefaultRuntime":"crun","Runtimes":{"crun":{"path":"/usr/bin/crun"},"runc":{"path":"/usr/bin/runc"}},"SecurityOptions":["name=seccomp,profile=default"]}`,
			version: `{"Components":[{"Name":"Podman Engine","Version":"4.3.1"},{"Name":"Conmon","Version":"conmon version 2.1.6"}],"Version":"4.3.1"}`,
			err:     "the engine at " + host + " is Podman 4.3.1, which is not supported",
		},
		"an engine with other runtimes alone": {
			info:    `{"Runtimes":{"crun":{"path":"/usr/bin/crun"}}}`,
			version: `{"Components":[{"Name":"Engine","Version":"20.10.24"}]}`,
			err:     "without seccomp",
		},
		"docker": {
			info: `{"Runtimes":{"io.containerd.runc.v2":{"path":"runc"},"runc":{"path":"runc"}}}`,
			err:  "without seccomp",
		},
	} {
		t.Run(name, func(t *testing.T) {
			engine := answering(func(r *http.Request) (*http.Response, error) {
				body := tc.version
				if strings.HasSuffix(r.URL.Path, "/info") {
					body = tc.info
				}
				assert.Equal(t, r.Method, http.MethodGet)
				assert.Check(t, body != "", "it is asked for %s", r.URL.Path)
				return &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
			})
			api, err := client.New(client.WithHost("tcp://engine.invalid:2375"), client.WithHTTPClient(&http.Client{Transport: engine}), client.WithAPIVersion("1.41"))
			assert.NilError(t, err)
			_, err = (&Driver{API: api, Host: host}).Create(t.Context(), lifecycle.Spec{Root: t.TempDir()})
			assert.ErrorContains(t, err, tc.err)
		})
	}
}
