package proxy

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

// refused sends a request by a route and returns the status and the message of its error.
func refused(t *testing.T, l *lab, method, path string, header http.Header, body io.Reader) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, l.routeURL(path), body)
	assert.NilError(t, err)
	for name, values := range header {
		r.Header[name] = values
	}
	response, err := http.DefaultClient.Do(r)
	assert.NilError(t, err)
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	assert.NilError(t, err)
	var read struct{ Error struct{ Message string } }
	_ = json.Unmarshal(answer, &read) // other answers have no error
	return response.StatusCode, read.Error.Message
}

// Tokens of a WebSocket could not be counted. It never reaches the target.
func TestRoutesRefuseWebSockets(t *testing.T) {
	l := newRouteLab(t, echoAfterUpgrade())
	for _, upgrade := range []string{"websocket", "WebSocket", "h2c, websocket", "websocket/13"} {
		for _, path := range []string{"/openai/responses", "/openai/v1/realtime", "/own/responses"} {
			status, message := refused(t, l, http.MethodGet, path, http.Header{"Upgrade": {upgrade}, "Connection": {"Upgrade"}}, nil)
			assert.Equal(t, status, http.StatusUpgradeRequired, "%s %s", upgrade, path)
			assert.Assert(t, cmp.Contains(message, "speaks only HTTP"))
		}
	}
	status, _ := refused(t, l, http.MethodGet, "/openai/v1/models", http.Header{"Upgrade": {"h2c"}, "Connection": {"Upgrade"}}, nil)
	assert.Equal(t, status, http.StatusOK, "another upgrade is ignored")
}

// The target never gets a whole request for a background response.
func TestRoutesRefuseBackgroundResponses(t *testing.T) {
	complete := make(chan string, 100)
	l := newRouteLab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			complete <- string(body)
		}
		_, _ = io.WriteString(w, "{}")
	}))
	long := `{"input":"` + strings.Repeat("x", 200<<10) + `",`
	for _, body := range []string{
		`{"background":true}`, `{"model":"m","background" : true, "store":true}`, `{"backgr\u006fund":true}`, `{"background":1}`,
		`{"background":"true"}`, `{"background":"tru\u0065"}`, `{"background":false,"background":true}`, long + `"background":true}`,
	} {
		for _, path := range []string{"/openai/responses", "/openai/v1/responses", "/own/v1/responses/", "/openai/v1/%72esponses"} {
			for _, stream := range []bool{false, true} {
				var sent io.Reader = strings.NewReader(body)
				if stream {
					sent = io.MultiReader(sent) // of unknown length
				}
				status, message := refused(t, l, http.MethodPost, path, nil, sent)
				assert.Equal(t, status, http.StatusBadRequest, "%.60s %s", body, path)
				assert.Assert(t, cmp.Contains(message, `"background"`))
			}
		}
	}
	status, message := refused(t, l, http.MethodPost, "/openai/responses", http.Header{"Content-Encoding": {"zstd"}}, strings.NewReader("packed"))
	assert.Equal(t, status, http.StatusUnsupportedMediaType)
	assert.Assert(t, cmp.Contains(message, "without an encoding"))
	status, _ = refused(t, l, http.MethodPost, "/openai/responses", nil, strings.NewReader("{\x00\"\x00"))
	assert.Equal(t, status, http.StatusUnsupportedMediaType)
	assert.Equal(t, len(complete), 0, "the target got a whole request")

	for _, body := range []string{
		`{}`, long + `"background":false}`, `{"background":null}`, `{"metadata":{"background":true},"input":[{"background":true}]}`, `{"input":"\"background\":true"}`,
	} {
		status, _ = refused(t, l, http.MethodPost, "/openai/responses", nil, strings.NewReader(body))
		assert.Equal(t, status, http.StatusOK, "%.60s", body)
		assert.Equal(t, <-complete, body)
	}
	status, _ = refused(t, l, http.MethodPost, "/openai/images", nil, strings.NewReader(`{"background":"auto"}`))
	assert.Equal(t, status, http.StatusOK)
}
