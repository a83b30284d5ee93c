package stream

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"github.com/docker-ralph/docker-ralph/ralph/agent/event"
)

// recorded are streams of the real programs, whose models were played by a
// script: codex 0.169, gemini 0.61, opencode 1.18, copilot 1.0. "go test
// ./ralph/agent/stream -update" writes the golden files anew.
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
	{"opencode", Opencode, 360, false, false},
	{"copilot", Copilot, -1, false, false},
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

func TestCopilotFailure(t *testing.T) {
	_, events := decode(Copilot(), `{"type":"model.call_failure","data":{"statusCode":429,"errorMessage":"slow down"}}`+"\n"+
		`{"type":"result","exitCode":1}`)
	assert.Assert(t, last[event.Result](events).Failed)
	assert.Equal(t, last[event.RateLimit](events).Text, "429 slow down")
}

func TestClaudeRateLimits(t *testing.T) {
	limited := func(stream string) event.RateLimit {
		_, events := render(stream)
		return last[event.RateLimit](events)
	}
	limit := limited(`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1795240000,"rateLimitType":"five_hour"}}`)
	assert.Equal(t, limit.Until.Unix(), int64(1795240000))
	assert.Equal(t, limit.Text, "limit reached five hour")
	for _, fine := range []string{
		`{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":1795240000}}`,
		`{"type":"assistant","message":{"content":[{"type":"text","text":"I fixed the rate limit of 429"}]}}`,
		`{"type":"result","num_turns":1,"result":"The rate limit works."}`,
	} {
		assert.Equal(t, limited(fine), event.RateLimit{})
	}
	limit = limited(`{"type":"result","num_turns":1,"is_error":true,"result":"Claude AI usage limit reached|4102444800"}`)
	assert.Assert(t, limit.Text != "")
}

func FuzzAgents(f *testing.F) {
	for _, tc := range recorded {
		b, err := os.ReadFile(filepath.Join("testdata", tc.name+".jsonl"))
		assert.NilError(f, err)
		f.Add(string(b))
	}
	f.Add(`{"type":"error","error":"\u001b[2J"}`)
	f.Fuzz(func(t *testing.T, stream string) {
		for _, tc := range recorded {
			out, events := decode(tc.decoder(), stream)
			assert.Equal(t, event.Strip(out), out)
			for _, e := range events {
				if c, ok := e.(event.Complaint); ok {
					assert.Equal(t, event.Strip(c.Text), c.Text)
				}
			}
		}
	})
}
