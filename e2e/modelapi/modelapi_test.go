package modelapi

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

const tools = `"tools":[{"name":"Bash"}]`

func post(t *testing.T, url, session, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/messages?beta=true", strings.NewReader(body))
	assert.NilError(t, err)
	req.Header.Set("X-Claude-Code-Session-Id", session)
	req.Header.Set("X-Api-Key", "key")
	resp, err := http.DefaultClient.Do(req)
	assert.NilError(t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	assert.NilError(t, err)
	return resp.StatusCode, string(b)
}

func TestStream(t *testing.T) {
	api := New(Sessions([]Turn{{Text: "first", Tools: Bash("ls").Tools}}))
	server := httptest.NewServer(api)
	defer server.Close()
	_, answer := post(t, server.URL, "s", `{"model":"m","stream":true,`+tools+`,"system":[{"type":"text","text":"be good"}],"messages":[{"role":"user","content":"go"}]}`)

	var kinds []string
	lines := bufio.NewScanner(strings.NewReader(answer))
	for lines.Scan() {
		if kind, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			kinds = append(kinds, kind)
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var event struct{ Type string }
			assert.NilError(t, json.Unmarshal([]byte(data), &event))
			assert.Equal(t, event.Type, kinds[len(kinds)-1])
		}
	}
	assert.DeepEqual(t, kinds, []string{
		"message_start",
		"content_block_start", "content_block_delta", "content_block_stop",
		"content_block_start", "content_block_delta", "content_block_stop",
		"message_delta", "message_stop",
	})
	r := api.Requests()[0]
	assert.Equal(t, r.Model, "m")
	assert.Equal(t, r.Key, "key")
	assert.Equal(t, r.System, "be good\n")
	assert.Equal(t, r.UserText(), "go\n")
}

func TestSessionsAndTurns(t *testing.T) {
	api := New(Sessions([]Turn{Bash("one"), Say("end one")}, []Turn{Say("end two")}))
	server := httptest.NewServer(api)
	defer server.Close()
	const first = `{"model":"m",` + tools + `,"messages":[{"role":"user","content":[{"type":"text","text":"go"}]}`
	const second = first + `,{"role":"assistant","content":[{"type":"tool_use"}]},{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"out"}],"is_error":true}]}`
	for _, tc := range []struct{ name, session, body, want string }{
		{"first session", "a", first + "]}", `"command":"one"`},
		{"asked again", "a", first + "]}", `"command":"one"`},
		{"second session", "b", first + "]}", `"end two"`},
		{"second turn", "a", second + "]}", `"end one"`},
		{"too many turns", "b", second + "]}", `The script has no turn 2 for session 2.`},
		{"too many sessions", "c", first + "]}", `The script has no turn 1 for session 3.`},
		{"side question", "a", `{"model":"m","messages":[{"role":"user","content":"title?"}]}`, `"ok"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, answer := post(t, server.URL, tc.session, tc.body)
			assert.Assert(t, strings.Contains(answer, tc.want), answer)
		})
	}
	assert.Equal(t, len(api.First()), 3)
	assert.DeepEqual(t, api.Requests()[3].Results(), []Block{{Type: "tool_result", Text: "out", IsError: true}})
}

func TestRefusals(t *testing.T) {
	api := New(func(Request) Turn { return Turn{Tools: []Tool{{"X", make(chan int)}}} })
	server := httptest.NewServer(api)
	defer server.Close()
	for _, tc := range []struct {
		name, body string
		status     int
	}{
		{"no JSON", "{", http.StatusBadRequest},
		{"no messages", "{}", http.StatusBadRequest},
		{"input that is no JSON", `{` + tools + `,"messages":[{"role":"user","content":"go"}]}`, http.StatusInternalServerError},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, _ := post(t, server.URL, "s", tc.body)
			assert.Equal(t, status, tc.status)
		})
	}
	resp, err := http.Head(server.URL + "/")
	assert.NilError(t, err)
	_ = resp.Body.Close()
	assert.Equal(t, resp.StatusCode, http.StatusNotFound)
	assert.DeepEqual(t, api.Others(), []string{"HEAD /"})
}
