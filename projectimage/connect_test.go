package projectimage

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/hint"
)

// podman returns a connection to a server that answers HTTP/1.1 to everything.
func podman(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		_, _ = theirs.Read(make([]byte, 1024))
		_, _ = io.WriteString(theirs, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
		_ = theirs.Close()
	}()
	return ours, nil
}

func TestNoBuildKit(t *testing.T) {
	for _, tc := range []struct {
		name, host string
		dial       func(context.Context) (net.Conn, error)
		native     bool
	}{
		{"nothing answers", "unix:///test.sock", nil, true},
		{"something else answers", "unix:///test.sock", podman, true},
		{"named pipe", "npipe:////./pipe/docker_engine", nil, true},
		{"remote", "tcp://10.0.0.1:2376", podman, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, engine, _ := newFake(t, nil)
			engine.host, engine.dial = tc.host, tc.dial
			_, err := b.connect(t.Context())
			var noBuildKit *NoBuildKitError
			assert.Assert(t, errors.As(err, &noBuildKit))
			assert.Error(t, err, "connecting to BuildKit on "+tc.host+": unable to upgrade to h2c, received 404")
			assert.DeepEqual(t, hint.Of(err), []string{"use Docker 20.10 or newer, or an existing image with --image IMAGE"})
			assert.Assert(t, slices.Contains(engine.calls, "hijack /grpc h2c"))
			assert.Equal(t, slices.Contains(engine.calls, "dial"), tc.native)
		})
	}
}

// TestNoBuildKitBehindASocket asks a server that is an engine in all but
// BuildKit, as other engines with Docker's API are.
func TestNoBuildKitBehindASocket(t *testing.T) {
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/_ping":
			w.Header().Set("Api-Version", "1.41")
		case strings.HasSuffix(r.URL.Path, "/json"):
			w.Header().Set("Content-Type", "application/json")
			if !strings.Contains(r.URL.Path, "/images/debian:") { // the base is there, and nothing else
				http.Error(w, `{"message":"no such image"}`, http.StatusNotFound)
				return
			}
			_, _ = io.WriteString(w, `{"Id":"sha256:00"}`)
		default:
			http.NotFound(w, r)
		}
	})
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) {
			address := filepath.Join(t.TempDir(), "s")
			if network == "tcp" {
				address = "127.0.0.1:0"
			}
			listener, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
			assert.NilError(t, err)
			server := httptest.NewUnstartedServer(api)
			_ = server.Listener.Close()
			server.Listener = listener
			server.Start()
			defer server.Close()
			host := network + "://" + listener.Addr().String()
			engine, err := client.New(client.WithHost(host))
			assert.NilError(t, err)
			defer func() { _ = engine.Close() }()

			b := &Builder{Engine: engine, LockDir: t.TempDir()}
			_, err = b.Ensure(t.Context(), Request{Agent: "shell"})
			_, ok := errors.AsType[*NoBuildKitError](err)
			assert.Assert(t, ok, "%v", err)
			assert.Assert(t, !strings.Contains(err.Error(), "\n"))
			assert.ErrorContains(t, err, ": connecting to BuildKit on "+host+": unable to upgrade to h2c, received 404")
			assert.Equal(t, len(hint.Of(err)), 1)
		})
	}
}

func TestConnectCancelled(t *testing.T) {
	b, engine, _ := newFake(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	engine.hijack = func(context.Context) (net.Conn, error) {
		cancel()
		return nil, errors.New("broken pipe")
	}
	_, err := b.connect(ctx)
	assert.Assert(t, errors.Is(err, context.Canceled), "%v", err)
}
