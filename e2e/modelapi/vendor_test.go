package modelapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
)

// ask sends a request as an agent would.
func ask(t *testing.T, url, path, body string) (status int, header http.Header, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(body))
	assert.NilError(t, err)
	req.Header.Set("Authorization", "Bearer key")
	resp, err := http.DefaultClient.Do(req)
	assert.NilError(t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	assert.NilError(t, err)
	return resp.StatusCode, resp.Header, string(b)
}

// Each API: a first request gets a command, one with a result the closing
// text, and one without a shell a text.
func TestVendor(t *testing.T) {
	const chatTools = `"tools":[{"type":"function","function":{"name":"bash","parameters":{"properties":{"command":{"type":"string"},"description":{"type":"string"},"timeout":{"type":"number"}},"required":["command","description"]}}}]`
	const responsesTools = `"tools":[{"type":"function","name":"read"},{"type":"function","name":"shell","parameters":{"properties":{"command":{"type":"array"}}}}]`
	const geminiTools = `"tools":[{"functionDeclarations":[{"name":"run_shell_command","parametersJsonSchema":{"properties":{"command":{"type":"string"}}}}]}]`
	for _, tc := range []struct{ name, path, body, want string }{
		{"chat", "/v1/chat/completions", `{"stream":true,` + chatTools + `}`, `"arguments":"{\"command\":\"ls\",\"description\":\"Run a command\"}"`},
		{"chat, done", "/v1/chat/completions", `{"stream":true,"messages":[{"role":"tool"}],` + chatTools + `}`, `"content":"Done."`},
		{"chat at once", "/v1/chat/completions", `{"messages":[{"role":"tool"}],` + chatTools + `}`, `"object":"chat.completion"`},
		{"chat, no shell", "/v1/chat/completions", `{"stream":true}`, `"content":"title"`},
		{"responses", "/v1/responses", `{` + responsesTools + `}`, `"arguments":"{\"command\":[\"sh\",\"-c\",\"ls\"]}"`},
		{"responses, done", "/v1/responses", `{"input":[{"type":"function_call_output"}],` + responsesTools + `}`, `"text":"Done."`},
		{"gemini", "/v1beta/models/m:streamGenerateContent?alt=sse", `{` + geminiTools + `}`, `"functionCall":{"args":{"command":"ls"},"id":"call_1","name":"run_shell_command"}`},
		{"gemini, done", "/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[{"parts":[{"functionResponse":{}}]}],` + geminiTools + `}`, `{"text":"Done."}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := &Vendor{Commands: []string{"ls"}, Say: "Done."}
			server := httptest.NewServer(v)
			defer server.Close()
			status, _, answer := ask(t, server.URL, tc.path, tc.body)
			assert.Equal(t, status, http.StatusOK)
			assert.Assert(t, cmp.Contains(answer, tc.want))
			assert.Equal(t, v.Requests(), 1)
			assert.DeepEqual(t, v.Keys(), []string{"key"})
		})
	}
}

func TestVendorRefuses(t *testing.T) {
	v := &Vendor{Say: "Done.", RetryAfter: "7", Refuse: func(number int) (int, string) {
		if number > 1 {
			return 0, ""
		}
		return http.StatusTooManyRequests, "slow down"
	}}
	server := httptest.NewServer(v)
	defer server.Close()
	status, header, answer := ask(t, server.URL, "/v1/responses", "{}")
	assert.Equal(t, status, http.StatusTooManyRequests)
	assert.Equal(t, header.Get("Retry-After"), "7")
	assert.Equal(t, answer, "slow down")
	status, _, _ = ask(t, server.URL, "/v1/responses", "{}")
	assert.Equal(t, status, http.StatusOK)

	status, _, _ = ask(t, server.URL, "/v1/models", "{}")
	assert.Equal(t, status, http.StatusNotFound)
	assert.DeepEqual(t, v.Others(), []string{"POST /v1/models"})
	assert.Equal(t, v.Requests(), 2)
}
