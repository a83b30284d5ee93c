package microvm

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

func TestParseLog(t *testing.T) {
	const log = `{"blocked_hosts":[
{"host":"far.example:443","vm_name":"ours","proxy_type":"forward","rule":"","last_seen":"2026-11-01T10:05:00Z","since":"2026-11-01T10:00:00Z","count_since":3,"reason":"No matching allow rule (default deny)"},
{"host":"far.example:443","vm_name":"theirs","count_since":1},
{"host":"[fd00::1]:22","vm_name":"ours","last_seen":"10:05:00 1-Nov","count_since":"many"},
{"host":"name-alone","vm_name":"ours","rule":"<default policy>","count_since":0}],
"allowed_hosts":[{"host":"github.com:443","vm_name":"ours","rule":"github.com:443","count_since":2}]}`
	for name, output := range map[string]string{"alone": log, "with text around it": starts + log + "\n" + "Docker Sandboxes Update Available"} {
		t.Run(name, func(t *testing.T) {
			got, err := parseLog([]byte(output), "ours")
			assert.NilError(t, err)
			assert.DeepEqual(t, got, []lifecycle.Request{
				{Host: "far.example", Port: 443, Refused: true, Count: 3, Last: time.Date(2026, 11, 1, 10, 5, 0, 0, time.UTC), Via: "forward", Why: "No matching allow rule (default deny)"},
				{Host: "fd00::1", Port: 22, Refused: true, Count: 1},
				{Host: "name-alone", Refused: true, Count: 1, Why: "<default policy>"},
				{Host: "github.com", Port: 443, Count: 2, Why: "github.com:443"},
			})
		})
	}
	for _, output := range []string{"", "no JSON", "[]", "{}", `{"blocked_hosts":{}}`, `{"blocked_hosts":[1]}`} {
		_, err := parseLog([]byte(output), "ours")
		assert.Assert(t, err != nil, output)
	}
}

func FuzzParseLog(f *testing.F) {
	f.Add([]byte(`{"blocked_hosts":[{"host":"far.example:443","vm_name":"ours","last_seen":"2026-11-01T10:05:00Z","count_since":3}],"allowed_hosts":null}`))
	f.Add([]byte("Starting sandboxd daemon...\n{\"allowed_hosts\":[{\"host\":\":0\",\"count_since\":-1}]}"))
	f.Fuzz(func(t *testing.T, output []byte) {
		requests, err := parseLog(output, "ours")
		for _, r := range requests {
			assert.NilError(t, err)
			assert.Assert(t, r.Count > 0)
		}
	})
}
