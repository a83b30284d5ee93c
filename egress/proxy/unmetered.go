package proxy

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress/meter"
)

// Requests by routes whose tokens could not be counted are refused. Agents get the errors in the format of
// OpenAI's API, since only that has such requests.

// wantsWebSocket reports whether a request asks for a WebSocket.
func wantsWebSocket(header http.Header) bool {
	for _, value := range header.Values("Upgrade") {
		for protocol := range strings.SplitSeq(value, ",") {
			if name, _, _ := strings.Cut(strings.TrimSpace(protocol), "/"); strings.EqualFold(name, "websocket") {
				return true
			}
		}
	}
	return false
}

// refuseWebSocket answers so that agents send the request by HTTP at once: on this status, Codex does not retry.
func refuseWebSocket(w http.ResponseWriter) {
	w.Header().Set("Upgrade", "HTTP/1.1") // the status needs one
	refuseJSON(w, http.StatusUpgradeRequired, "the proxy speaks only HTTP here, not WebSocket: send the request with POST")
}

// isResponses reports whether a path is that of OpenAI's Responses API.
func isResponses(path string) bool {
	return strings.HasSuffix(strings.TrimRight(path, "/"), "/responses")
}

// refuseRequest answers a request whose body is refused.
func refuseRequest(w http.ResponseWriter, err error) {
	status, advice := http.StatusBadRequest, "send the request without it"
	if errors.Is(err, meter.ErrUnreadable) {
		status, advice = http.StatusUnsupportedMediaType, "send it as plain JSON"
	}
	refuseJSON(w, status, err.Error()+": "+advice)
}

func refuseJSON(w http.ResponseWriter, status int, message string) {
	body, err := json.Marshal(map[string]any{"error": map[string]string{"type": "invalid_request_error", "message": "docker ralph: " + message}})
	if err != nil {
		body = []byte("{}") // strings can always be encoded
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
