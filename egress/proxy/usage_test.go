package proxy

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/wire/usage"
)

const (
	messageStart = `data: {"type":"message_start","message":{"model":"claude-x","usage":{"input_tokens":100,"cache_read_input_tokens":7,"output_tokens":1}}}`
	messageDelta = `data: {"type":"message_delta","usage":{"output_tokens":42}}`
)

// spent returns the totals that the sandbox gets.
func (l *lab) spent(t *testing.T) usage.Totals {
	t.Helper()
	status, body := get(t, http.DefaultClient, l.routeURL(usage.Path))
	assert.Equal(t, status, http.StatusOK, body)
	totals, err := usage.Read([]byte(body))
	assert.NilError(t, err)
	totals.ID = ""
	return totals
}

func (l *lab) waitSpent(t *testing.T, want ...usage.Model) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		got := fmt.Sprintf("%+v", l.spent(t).Models)
		if got == fmt.Sprintf("%+v", want) {
			return poll.Success()
		}
		return poll.Continue("%s", got)
	})
}

// Each event of a streamed answer arrives before the next one is sent, compressed or not,
// and its tokens count at once.
func TestTokensOfAStreamedAnswer(t *testing.T) {
	for name, tc := range map[string]struct{ accept, forwarded string }{
		"plain": {"br", "identity"},
		"gzip":  {"gzip, deflate, br, zstd", "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			next := make(chan struct{})
			l := newRouteLab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				assert.Check(t, r.Header.Get("Accept-Encoding") == tc.forwarded, r.Header.Get("Accept-Encoding"))
				w.Header().Set("Content-Type", "text/event-stream")
				var out io.Writer = w
				flush := func() { w.(http.Flusher).Flush() }
				if tc.forwarded == "gzip" {
					w.Header().Set("Content-Encoding", "gzip")
					z := gzip.NewWriter(w)
					defer func() { _ = z.Close() }()
					out, flush = z, func() {
						_ = z.Flush()
						w.(http.Flusher).Flush()
					}
				}
				for _, event := range []string{messageStart, messageDelta} {
					_, _ = io.WriteString(out, event+"\n\n")
					flush()
					select {
					case <-next:
					case <-r.Context().Done():
						return
					}
				}
			}))
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.routeURL("/anthropic/v1/messages"), strings.NewReader("{}"))
			assert.NilError(t, err)
			r.Header.Set("Accept-Encoding", tc.accept)
			response, err := http.DefaultClient.Do(r)
			assert.NilError(t, err)
			defer func() { _ = response.Body.Close() }()
			var body io.Reader = response.Body
			if tc.forwarded == "gzip" {
				assert.Equal(t, response.Header.Get("Content-Encoding"), "gzip")
				body, err = gzip.NewReader(body)
				assert.NilError(t, err)
			}
			lines := bufio.NewScanner(body)
			for _, step := range []struct {
				event  string
				tokens usage.Tokens
			}{
				{messageStart, usage.Tokens{Input: 100, CacheRead: 7, Output: 1}},
				{messageDelta, usage.Tokens{Input: 100, CacheRead: 7, Output: 42}},
			} {
				assert.Assert(t, lines.Scan())
				assert.Equal(t, lines.Text(), step.event)
				l.waitSpent(t, usage.Model{Name: "claude-x", Tokens: step.tokens})
				assert.Assert(t, lines.Scan())
				next <- struct{}{}
			}
			assert.Assert(t, !lines.Scan())
			assert.NilError(t, lines.Err())
		})
	}
}

// Only successful answers to requests by the routes of models count.
func TestTokensOfOtherAnswers(t *testing.T) {
	const answer = `{"model":"m","usage":{"prompt_tokens":10,"completion_tokens":1}}`
	l := newRouteLab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/error") {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = io.WriteString(w, answer)
	}))
	send := func(client *http.Client, method, address string, status int) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
		assert.NilError(t, err)
		response, err := client.Do(r)
		assert.NilError(t, err)
		body, err := io.ReadAll(response.Body)
		assert.NilError(t, err)
		assert.NilError(t, response.Body.Close())
		assert.Equal(t, response.StatusCode, status)
		assert.Equal(t, string(body), answer)
	}
	send(http.DefaultClient, http.MethodGet, l.routeURL("/openai/responses/resp_1"), http.StatusOK)
	send(http.DefaultClient, http.MethodPost, l.routeURL("/openai/error"), http.StatusTooManyRequests)
	send(http.DefaultClient, http.MethodPost, l.routeURL("/git/repo.git/git-upload-pack"), http.StatusOK)
	send(l.client(t), http.MethodPost, "http://allowed.example/v1/chat/completions", http.StatusOK)
	assert.Equal(t, len(l.spent(t).Models), 0)
	for range 3 {
		send(http.DefaultClient, http.MethodPost, l.routeURL("/openai/chat/completions"), http.StatusOK)
	}
	send(http.DefaultClient, http.MethodPost, l.routeURL("/own/v1/anything"), http.StatusOK)
	l.waitSpent(t, usage.Model{Name: "m", Tokens: usage.Tokens{Input: 40, Output: 4}})
	response, err := http.Post(l.routeURL(usage.Path), "application/json", strings.NewReader("{}"))
	assert.NilError(t, err)
	assert.NilError(t, response.Body.Close())
	assert.Equal(t, response.StatusCode, http.StatusMethodNotAllowed)
}
