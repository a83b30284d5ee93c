package denylog

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/wire/plainhttp"
)

func TestNext(t *testing.T) {
	var asked []string
	answers := []string{
		`{"mark":"a.1","refused":[]}`,
		`{"mark":"a.3","refused":[{"host":"b.example","port":443,"times":2},{"host":"\u001b[31m","times":1}]}`,
		"not JSON",
		`{"mark":"a.4","refused":[]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.String())
		_, _ = io.WriteString(w, answers[len(asked)-1])
	}))
	defer server.Close()
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	s := At(server.URL + Path)
	assert.Equal(t, len(s.Next(t.Context()).Refused), 0)
	assert.DeepEqual(t, s.Next(t.Context()), Answer{Mark: "a.3", Refused: []Refusal{{Host: "b.example", Port: 443, Times: 2}}, More: 1})
	assert.DeepEqual(t, s.Next(t.Context()), Answer{})
	assert.DeepEqual(t, s.Next(t.Context()), Answer{Mark: "a.4"})
	assert.DeepEqual(t, asked, []string{"GET /.refused", "GET /.refused?since=a.1", "GET /.refused?since=a.3", "GET /.refused?since=a.3"})
}

func TestAtNothing(t *testing.T) {
	for _, address := range []string{"", "x", "file:///etc/passwd", "https://a.example/", "http://", "http://a b", "%"} {
		assert.Check(t, At(address) == nil, address)
	}
}

func TestNextIgnoresBrokenProxies(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	closed := httptest.NewServer(nil)
	closed.Close()
	answering := func(h http.HandlerFunc) string {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return server.URL
	}
	for name, address := range map[string]string{
		"gone":   closed.URL,
		"silent": "http://" + silent.Addr().String(),
		"unhappy": answering(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"mark":"a.1"}`)
		}),
		"elsewhere": answering(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/there" {
				_, _ = io.WriteString(w, `{"mark":"a.1"}`)
				return
			}
			http.Redirect(w, r, "/there", http.StatusFound)
		}),
		"endless": answering(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"mark":"a.1","refused":[{"host":"a.example","times":1}`)
			for {
				if _, err := io.WriteString(w, strings.Repeat(`,{"host":"a.example","times":1}`, 1000)); err != nil {
					return
				}
			}
		}),
		"slow": answering(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprint(w, "{")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			assert.DeepEqual(t, At(address).Next(t.Context()), Answer{})
			assert.Check(t, time.Since(began) < 3*plainhttp.Timeout)
			_, err := At(address).ask(t.Context())
			assert.Check(t, is.ErrorContains(err, ""))
		})
	}
}
