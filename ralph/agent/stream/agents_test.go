package stream

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// recorded are streams of the real programs, whose models were played by a
// script: codex 0.169, gemini 0.61, opencode 1.18, copilot 1.0. "go test
// ./ralph/agent/stream -update" updates the golden files.
var recorded = []struct {
	name    string
	decoder func() event.Decoder
	tokens  int64 // -1: none reported
	failed  bool
	limited bool
}{
	{"codex", Codex, 360, false, false},
	{"codex-limit", Codex, -1, true, true},
	{"gemini", Gemini, 360, false, false},
	{"gemini-limit", Gemini, 0, true, true},
	{"gemini-retry", Gemini, 0, true, true},
	{"opencode", Opencode, 360, false, false},
	{"opencode-limit", Opencode, -1, true, true},
	{"copilot", Copilot, -1, false, false},
	{"copilot-limit", Copilot, -1, true, true},
}

// Whatever an agent did, what is left out of its description is marked.
func TestLongDetailsAreMarked(t *testing.T) {
	long := strings.Repeat("é", maxWritten+1)
	item := func(state, kind, fields string) string {
		return fmt.Sprintf(`{"type":"item.%s","item":{"type":%q,%s}}`, state, kind, fields)
	}
	for name, line := range map[string]string{
		"command": item("started", "command_execution", `"command":"`+long+`"`),
		"edit":    item("completed", "file_change", `"changes":[{"kind":"add","path":"`+long+`"}]`),
		"search":  item("completed", "web_search", `"query":"`+long+`"`),
		"tool":    item("started", "mcp_tool_call", `"server":"s","tool":"t","arguments":{"x":"`+long+`"}`),
		"pattern": item("started", "mcp_tool_call", `"server":"s","tool":"t","arguments":{"pattern":"`+long+`"}`),
		"path":    item("started", "mcp_tool_call", `"server":"s","tool":"t","arguments":{"path":"`+long+`"}`),
		"result":  item("completed", "command_execution", `"exit_code":1,"aggregated_output":"`+strings.Repeat(long, 5)+`"`),
	} {
		t.Run(name, func(t *testing.T) {
			out, _ := decode(Codex(), line+"\n")
			assert.Assert(t, strings.Contains(out, "…"), out)
		})
	}
}

func TestRecordedStreams(t *testing.T) {
	for _, tc := range recorded {
		t.Run(tc.name, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("testdata", tc.name+".jsonl"))
			assert.NilError(t, err)
			out, events := decode(tc.decoder(), string(b))
			golden.Assert(t, out, tc.name+".golden")
			usage := last[event.Usage](events)
			if tc.tokens < 0 {
				assert.Assert(t, usage.Tokens == nil)
			} else {
				assert.Equal(t, usage.Tokens.Total(), tc.tokens)
			}
			result := last[event.Result](events)
			assert.Assert(t, result.Summary != "")
			assert.Equal(t, result.Failed, tc.failed)
			if !tc.failed {
				assert.Equal(t, result.Text, "All done.")
			}
			assert.Equal(t, last[event.RateLimit](events).Text != "", tc.limited)
		})
	}
}

func TestOpencodeCost(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "opencode.jsonl"))
	assert.NilError(t, err)
	_, events := decode(Opencode(), string(b))
	assert.Assert(t, math.Abs(*last[event.Usage](events).CostUSD-0.00042) < 1e-9)
	_, events = decode(Opencode(), `{"type":"error","error":{"name":"APIError","data":{"message":"429 Too Many Requests, retry after 20s"}}}`)
	assert.Assert(t, last[event.Result](events).Failed)
	assert.Assert(t, !last[event.RateLimit](events).Until.IsZero())
}

func TestCodexItems(t *testing.T) {
	out, _ := decode(Codex(), strings.Join([]string{
		`{"type":"item.completed","item":{"type":"file_change","changes":[{"path":"a.go","kind":"update"},{"path":"b.go","kind":"add"}]}}`,
		`{"type":"item.started","item":{"type":"mcp_tool_call","server":"docs","tool":"find","arguments":{"q":"x"}}}`,
		`{"type":"item.completed","item":{"type":"web_search","query":"go 1.26"}}`,
		`{"type":"item.completed","item":{"type":"reasoning","text":"hm"}}`,
		`{"type":"item.completed","item":{"type":"agent_message","text":"\u001b[31mred\n"}}`,
	}, "\n"))
	assert.Equal(t, out, "\n🔧 Edit update a.go, add b.go\n\n🔧 docs.find {\"q\":\"x\"}\n\n🔧 WebSearch go 1.26\nred\n")
}

// Claude 2.1 when its budget is spent.
func TestClaudeBudget(t *testing.T) {
	out, events := decode(Claude(), `{"stop_reason":"tool_use","total_cost_usd":0.0008,"terminal_reason":"budget_exhausted","is_error":true,`+
		`"num_turns":1,"subtype":"error_max_budget_usd","errors":["Reached maximum budget ($0.0001)"],"type":"result"}`)
	assert.Equal(t, out, "\n━━ Done (error_max_budget_usd) | cost: $0.0008 | turns: 1 ━━\n")
	assert.Equal(t, last[event.Result](events).Text, "Reached maximum budget ($0.0001)")
	assert.Assert(t, last[event.Result](events).Failed)
	assert.Equal(t, last[event.RateLimit](events), event.RateLimit{})
}

func TestCodexCommands(t *testing.T) {
	for _, tc := range []struct{ run, want string }{
		{`/bin/bash -lc 'go test ./... && echo "ok"'`, `go test ./... && echo "ok"`},
		{`/bin/zsh -c "echo 'hi'"`, `echo 'hi'`},
		{`/bin/bash -c ls`, `ls`},
		{`/bin/bash -c "echo \"$HOME\""`, `/bin/bash -c "echo \"$HOME\""`},
		{`/bin/bash -lc 'a' 'b'`, `/bin/bash -lc 'a' 'b'`},
		{`ls -l`, `ls -l`},
	} {
		assert.Equal(t, unwrapped(tc.run), tc.want)
	}
}

func TestCopilotFailure(t *testing.T) {
	const refused = `{"type":"model.call_failure","data":{"statusCode":429,"errorMessage":"{\"message\":\"slow down\"}"}}` + "\n"
	const failed = `{"type":"result","exitCode":1}`
	for _, tc := range []struct{ name, stream, limit string }{
		{"status", refused + failed, "slow down"},
		{"recovered", refused + `{"type":"assistant.message","data":{"content":"on"}}` + "\n" + failed, ""},
		{"kind of error", `{"type":"session.error","data":{"errorType":"rate_limit","message":"Not now.\nPlease wait 2 minutes."}}` + "\n" + failed, "Not now."},
		{"words", `{"type":"session.error","data":{"errorType":"query","message":"Error: 429 Too Many Requests"}}` + "\n" + failed, "Error: 429 Too Many Requests"},
		{"another error", `{"type":"session.error","data":{"errorType":"authentication","message":"Who are you?"}}` + "\n" + failed, ""},
		{"ended while it waited", refused, "slow down"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, events := decode(Copilot(), tc.stream)
			assert.Equal(t, last[event.Result](events).Failed, tc.name != "ended while it waited")
			assert.Equal(t, last[event.RateLimit](events).Text, tc.limit)
		})
	}
}

func TestCodexRateLimit(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "codex-retry.jsonl"))
	assert.NilError(t, err)
	_, events := decode(Codex(), string(b))
	assert.Equal(t, last[event.RateLimit](events).Text, "Reconnecting... 1/5 (exceeded retry limit, last status: 429 Too Many Requests)")
	_, events = decode(Codex(), string(b)+`{"type":"item.completed","item":{"type":"agent_message","text":"on"}}`)
	assert.Equal(t, last[event.RateLimit](events).Text, "")
}

// What the real programs report when their endpoint refuses the key, or does not
// answer: claude 2.1.329, codex 0.169, opencode 1.18.
func TestFailedRequestsAreReported(t *testing.T) {
	for _, tc := range []struct {
		name    string
		decoder func() event.Decoder
		key     string
		ended   string // the summary
	}{
		{"claude-401", Claude, "Failed to authenticate. API Error: 401 neutral sentinel", "Done (error) | cost: $0 | turns: 1"},
		{"claude-403", Claude, "Failed to authenticate. API Error: 403 neutral sentinel", "Done (error) | cost: $0 | turns: 1"},
		{"claude-nokey", Claude, "Not logged in · Please run /login", "Done (error) | cost: $0 | turns: 1"},
		{"claude-unreachable", Claude, "", "Done (error) | cost: $0 | turns: 1"},
		{"codex-401", Codex, "unexpected status 401 Unauthorized: neutral sentinel, url: http://127.0.0.1:7601/responses", "Done (error) | cost: unknown | tokens: unknown"},
		{"opencode-401", Opencode, "neutral sentinel", "Done (error) | cost: unknown | tokens: unknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("testdata", tc.name+".jsonl"))
			assert.NilError(t, err)
			out, events := decode(tc.decoder(), string(b))
			golden.Assert(t, out, tc.name+".golden")
			assert.Equal(t, last[event.KeyRefused](events).Text, tc.key)
			assert.Equal(t, last[event.Result](events).Summary, tc.ended)
		})
	}
}

func TestClaudeKeyIsRejectedTwice(t *testing.T) {
	retry := func(attempt int) string {
		return fmt.Sprintf(`{"type":"system","subtype":"api_retry","attempt":%d,"max_retries":10,"retry_delay_ms":508.4,"error_status":401,"error":"authentication_failed"}`+"\n", attempt)
	}
	d := Claude()
	_, events := decode(d, retry(1))
	assert.DeepEqual(t, events, []event.Event{event.Retry{Text: "request failed (401 authentication_failed), retry 1 of 10 in 500ms"}})
	_, events = decode(d, retry(2))
	assert.Equal(t, last[event.KeyRefused](events).Text, "HTTP status 401")
}

func TestKeyRefusedIn(t *testing.T) {
	for text, want := range map[string]string{
		"Warning: x\nInvalid API key · Please run /login\n":                                    "Invalid API key · Please run /login",
		"[API Error: API key not valid. Please pass a valid API key.]":                         "[API Error: API key not valid. Please pass a valid API key.]",
		"Please set an Auth method in your settings.json or specify GEMINI_API_KEY":            "Please set an Auth method in your settings.json or specify GEMINI_API_KEY",
		"Error: No authentication information found.":                                          "Error: No authentication information found.",
		"unexpected status 401 Unauthorized: Missing bearer or basic authentication in header": "unexpected status 401 Unauthorized: Missing bearer or basic authentication in header",
		"Incorrect API key provided: sk-x.":                                                    "Incorrect API key provided: sk-x.",
		"API Error: 500 Internal server error":                                                 "",
		"main.go:401: undefined: key":                                                          "",
		"":                                                                                     "",
	} {
		said, found := KeyRefusedIn(text)
		assert.Equal(t, said, want)
		assert.Equal(t, found, want != "")
	}
}

func TestOpencodeReasons(t *testing.T) {
	const step = `{"type":"step_finish","part":{"reason":"`
	for reason, want := range map[string]string{"tool-calls": "", "unknown": "", "stop": "success", "length": "error", "content-filter": "error"} {
		out, _ := decode(Opencode(), step+reason+`"}}`)
		assert.Equal(t, strings.Contains(out, "Done ("), want != "", reason)
		assert.Assert(t, strings.Contains(out, want), reason)
	}
}

// Agents that continue after a result, e.g. after compaction, take it back.
func TestResumed(t *testing.T) {
	const stop = `{"type":"step_finish","part":{"reason":"stop"}}` + "\n"
	for _, tc := range []struct {
		name, stream string
		decoder      func() event.Decoder
		want         string
	}{
		{"opencode", `{"type":"step_start"}` + "\n" + stop, Opencode, "Usage Result"},
		{"opencode goes on", stop + `{"type":"step_start"}` + "\n" + stop, Opencode, "Usage Result Resumed Usage Result"},
		{"claude", `{"type":"assistant"}` + "\n" + `{"type":"result","num_turns":1}`, Claude, "Result"},
		{"claude goes on", `{"type":"result","num_turns":1}` + "\n" + `{"type":"assistant"}` + "\n" + `{"type":"assistant"}`, Claude, "Result Resumed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, events := decode(tc.decoder(), tc.stream)
			var kinds []string
			for _, e := range events {
				kinds = append(kinds, strings.TrimPrefix(fmt.Sprintf("%T", e), "event."))
			}
			assert.Equal(t, strings.Join(kinds, " "), tc.want)
		})
	}
}

func TestSummary(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		assert.Equal(t, done(false, "", event.Usage{Tokens: &event.Tokens{Input: n}}).Summary, "Done (success) | cost: unknown | tokens: "+want)
	}
}

func TestClaudeRateLimits(t *testing.T) {
	limited := func(stream string) event.RateLimit {
		_, events := render(stream)
		return last[event.RateLimit](events)
	}
	limit := limited(`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1795240000,"rateLimitType":"five_hour"}}`)
	assert.Equal(t, limit.Until.Unix(), int64(1795240000))
	assert.Equal(t, limit.Text, "five hour limit reached")
	for _, fine := range []string{
		`{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":1795240000}}`,
		`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","isUsingOverage":true}}`,
		`{"type":"assistant","message":{"content":[{"type":"text","text":"I fixed the rate limit of 429"}]}}`,
		`{"type":"result","num_turns":1,"result":"The rate limit works."}`,
	} {
		assert.Equal(t, limited(fine), event.RateLimit{})
	}
	limit = limited(`{"type":"result","num_turns":1,"is_error":true,"result":"Claude AI usage limit reached|4102444800"}`)
	assert.Assert(t, limit.Text != "")
}

func FuzzCodex(f *testing.F)    { fuzzDecoder(f, "codex", Codex) }
func FuzzGemini(f *testing.F)   { fuzzDecoder(f, "gemini", Gemini) }
func FuzzOpencode(f *testing.F) { fuzzDecoder(f, "opencode", Opencode) }
func FuzzCopilot(f *testing.F)  { fuzzDecoder(f, "copilot", Copilot) }
func FuzzClaude(f *testing.F)   { fuzzDecoder(f, "claude", Claude) }

// fuzzDecoder: nothing in a stream reaches the terminal unstripped, and it does
// not matter how the stream is cut.
func fuzzDecoder(f *testing.F, name string, decoder func() event.Decoder) {
	paths, err := filepath.Glob(filepath.Join("testdata", name+"*.jsonl"))
	assert.NilError(f, err)
	assert.Assert(f, len(paths) > 0)
	for _, path := range paths {
		b, err := os.ReadFile(path)
		assert.NilError(f, err)
		f.Add(string(b))
		for line := range strings.Lines(string(b)) {
			f.Add(line)
		}
	}
	f.Add(`{"type":"error","error":"\u001b[2J","message":"\u001b[2J"}`)
	f.Fuzz(func(t *testing.T, stream string) {
		out, events := decode(decoder(), stream)
		assert.Equal(t, termsafe.Strip(out), out)
		for _, e := range events {
			switch e := e.(type) {
			case event.Complaint:
				assert.Equal(t, termsafe.Strip(e.Text), e.Text)
			case event.RateLimit:
				assert.Equal(t, termsafe.Strip(e.Text), e.Text)
				assert.Assert(t, !strings.Contains(e.Text, "\n"))
			case event.Result:
				assert.Equal(t, termsafe.Strip(e.Text), e.Text)
			}
		}
		d := decoder()
		half := len(stream) / 2
		first := d.Decode([]byte(stream[:half]))
		assert.Equal(t, len(first)+len(d.Decode([]byte(stream[half:])))+len(d.End()), len(events))
	})
}

func TestReportedModel(t *testing.T) {
	for name, tc := range map[string]struct {
		decoder event.Decoder
		want    string
	}{"claude": {Claude(), "claude-opus-4-8[1m]"}, "gemini": {Gemini(), "gemini-2.5-pro"}, "copilot": {Copilot(), "gpt-test"}} {
		content, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
		assert.NilError(t, err)
		_, events := decode(tc.decoder, string(content))
		assert.Equal(t, last[event.Model](events).Name, tc.want)
	}
}
