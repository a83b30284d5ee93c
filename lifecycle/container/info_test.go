package container

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
)

type answering func(*http.Request) (*http.Response, error)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

type interrupted struct{ context.Context }

func (i interrupted) Read([]byte) (int, error) { return 0, i.Err() }

// A command that is interrupted in the middle of an answer ends as one that was
// interrupted.
func TestInfoReportsCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	engine := answering(func(r *http.Request) (*http.Response, error) {
		cancel()
		return &http.Response{StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(interrupted{ctx})}, nil
	})
	api, err := client.New(client.WithHost("tcp://engine.invalid:2375"), client.WithHTTPClient(&http.Client{Transport: engine}), client.WithAPIVersion("1.44"))
	assert.NilError(t, err)
	_, err = (&Driver{API: api}).info(ctx)
	assert.ErrorIs(t, err, context.Canceled)
}
