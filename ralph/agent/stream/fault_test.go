package stream

import (
	"testing"

	"gotest.tools/v3/assert"
)

// The messages of the real programs begin the list of each fault.
func TestFaultIn(t *testing.T) {
	for want, texts := range map[Fault][]string{
		RateLimited: {
			`API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
			"API Error: Request rejected (429) · This request would exceed your account's rate limit.",
			"API Error: Server is temporarily limiting requests (not your usage limit)", "Opus is experiencing high load, please use /model to switch to Sonnet",
			"[API Error: You exceeded your current quota, please check your plan and billing details. Please retry in 34.07s.]",
		},
		Unavailable: {
			"API Error: 503 Service unavailable. This is a server-side issue, usually temporary — try again in a moment.",
			"API Error: 502 Bad Gateway. This is a server-side issue, usually temporary — try again in a moment.",
			"API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)",
			"API Error: Connection error.", "API Error: Unable to connect to API (ECONNRESET)",
			"Request timed out. If the API is slow to answer, or a proxy or gateway holds responses, set API_TIMEOUT_MS above 4000.",
			"unexpected status 503 Service Unavailable: x, url: https://api.example/responses",
			"stream disconnected before completion: error sending request for url (https://api.example/responses)",
			`API Error: 500 {"type":"error","error":{"type":"api_error","message":"Internal server error"}}`,
			"API Error: API returned an empty or malformed response (HTTP 200) — check for a proxy or gateway intercepting the request.",
			"Authentication error · This may be a temporary network issue, please try again", "API Error: 409 conflict",
			"litellm.ServiceUnavailableError: AnthropicException - overloaded", "litellm.InternalServerError: OpenAIException", "unexpected EOF",
			`Post "https://api.example/v1/messages": EOF`, `Post "https://api.example/v1": net/http: TLS handshake timeout`, "dial tcp 10.0.0.1:443: i/o timeout",
			"http.client.RemoteDisconnected: Remote end closed connection without response", "HTTPSConnectionPool(host='api.example', port=443): Read timed out.",
			"Temporary failure in name resolution", "dial tcp: connect: no route to host", "Error: read ECONNRESET", "Error: Premature close",
			`{"error":{"code":503,"message":"The service is busy.","status":"UNAVAILABLE"}}`,
			"API Error: 504", "Error: connect ECONNREFUSED 10.0.0.1:443", "getaddrinfo EAI_AGAIN api.example",
		},
		KeyRefused: {
			"Failed to authenticate. API Error: 401 x", "API Error: 403 forbidden", "Invalid API key",
			"Your ANTHROPIC_API_KEY belongs to a disabled organization · Update or unset the environment variable",
			"Your organization has disabled API key authentication · Unset ANTHROPIC_API_KEY", "Your organization has disabled Claude subscription access for Claude Code",
			"API Error: 400 This organization has been disabled.", "Login expired · Please run /login", "OAuth token revoked", `{"code":"account_deactivated"}`,
			"Your apiKeyHelper script is failing · This usually means you need to re-authenticate", "Invalid request header from the environment",
		},
		Unpaid: {"Credit balance is too low", "API Error: 402", `{"error":{"code":"insufficient_quota"}}`, "HTTP 402 Payment Required"},
		UnknownModel: {
			"There's an issue with the selected model (opus-x). It may not exist or you may not have access to it.",
			`API Error: 404 {"type":"error","error":{"type":"not_found_error","message":"model: opus-x"}}`,
			"The model `x` does not exist or you do not have access to it.",
		},
		UnknownEndpoint: {"API Error: 404", "unexpected status 404 Not Found: page not found"},
		UnknownHost: {
			"API Error: Can't reach the API server — check your internet or DNS (ENOTFOUND)",
			"API Error: 502 docker ralph: x.example:443 is allowed, but cannot be reached: there is no such host",
		},
		PromptTooLong: {
			"Prompt is too long · the request is ~210000 tokens (limit 200000)", "Request too large (max 32MB).",
			"This model's maximum context length is 128000 tokens.", `{"code":"context_length_exceeded"}`,
		},
		NoFault: {
			"panic: nil pointer", "server.go:503: undefined: x", "tests took 500 ms", "exit status 2", "I fixed the connection pool.", "The account page is done.", "The overload test passes.",
			"sh: 1: unexpected EOF while looking for matching quote", "",
		},
	} {
		for _, text := range texts {
			got := FaultIn("working\n"+text, present)
			assert.Check(t, got.Fault == want, "%q: %d", text, got.Fault)
		}
	}
}

// Other programs fail too, and a custom agent may print their errors last.
func TestMessagesAboutTheModel(t *testing.T) {
	for text, want := range map[string]bool{
		"API Error: 503":                                   true,
		"API Error: 401":                                   true,
		"503 Service Unavailable":                          true,
		"Error: read ECONNRESET":                           true,
		"litellm.ServiceUnavailableError: busy":            true,
		"openai.APIConnectionError: Connection error.":     true,
		"unexpected EOF reading the response of the model": true,
		"connect ECONNREFUSED 127.0.0.1:5432":              false,
		"Error: connect ECONNREFUSED ::1:3000":             false,
		"unexpected EOF while looking for a quote":         false,
		"connect ECONNREFUSED 10.0.0.1:443":                true,
		"the model provider answered: status 500":          true,
		"expected status 200, got status 500":              false,
		"curl: (22) The requested URL returned error: 403": false,
		"curl: (6) Could not resolve host: x.example":      false,
	} {
		got := FaultIn(text, present)
		assert.Check(t, got.AboutModel() == want, text)
	}
}
