package loop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/session"
)

const (
	noLogin = `echo '{"type":"assistant","error":"authentication_failed","message":{"content":[{"type":"text","text":"Not logged in · Please run /login"}]}}';` +
		`echo '{"type":"result","subtype":"success","is_error":true,"num_turns":1,"result":"Not logged in · Please run /login"}'; exit 1`
)

func TestRejectedKeyEndsTheLoop(t *testing.T) {
	refusing := `for n in 1 2; do echo '{"type":"system","subtype":"api_retry","attempt":'$n',"max_retries":10,"retry_delay_ms":500,"error_status":401,"error":"authentication_failed"}'; done; exec sleep 600`
	for _, tc := range []struct {
		name, program, key, want, hint string
	}{
		{"refused", refusing, "sk-x", "claude: the model's endpoint rejected the key: HTTP status 401", "check the value of ANTHROPIC_API_KEY"},
		{"no key", noLogin, "", "claude has no key: Not logged in · Please run /login", "set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN"},
		{"an error like others", "echo Invalid API key >&2; exit 1", "sk-x", "claude: the model's endpoint rejected the key: Invalid API key", "check the value of ANTHROPIC_API_KEY"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := &listBacklog{statuses: []session.Status{{Open: 1}}, held: []string{"a"}}
			tr := newTestLoop(t, agent.Build, script(tc.program), b)
			tr.Session.Getenv = func(name string) string {
				if name == "ANTHROPIC_API_KEY" {
					return tc.key
				}
				return ""
			}
			began := time.Now()
			report, err := Run(t.Context(), tr.Options)
			assert.Error(t, err, tc.want)
			assert.DeepEqual(t, hint.Of(err), []string{tc.hint})
			assert.Equal(t, report.Stop, Failed)
			assert.Equal(t, len(report.Iterations), 1)
			assert.Equal(t, report.Iterations[0].Outcome, "failed")
			assert.Assert(t, cmp.Contains(report.Iterations[0].Reason, "key rejected: "))
			assert.Assert(t, cmp.Contains(strings.Join(b.calls, "\n"), "release a: the model's endpoint rejected the agent's key: "))
			assert.Assert(t, time.Since(began) < time.Minute)
		})
	}
}

func TestKeyMessagesAfterAResponseAreIgnored(t *testing.T) {
	const worked = `echo '{"type":"assistant","message":{"id":"1","content":[],"usage":{"output_tokens":5}}}'; echo 'curl: 401 Unauthorized' >&2; exit 1`
	tr := newTestLoop(t, agent.Plan, worked, nil)
	tr.MaxIterations = 2
	report, err := Run(t.Context(), tr.Options)
	assert.ErrorContains(t, err, "the agent claude failed: exited with code 1")
	assert.Equal(t, report.Stop, RunFailed)
	assert.Equal(t, len(report.Iterations), 2)
}

func TestRetriesAreShownImmediately(t *testing.T) {
	tr := newTestLoop(t, agent.Plan, `echo '{"type":"system","subtype":"api_retry","attempt":3,"max_retries":10,"retry_delay_ms":2000,"error_status":529,"error":"overloaded"}'
		until [ -e "$DIR/shown" ]; do sleep 0.01; done`, nil)
	tr.MaxIterations = 1
	done := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), tr.Options)
		done <- err
	}()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if strings.Contains(tr.out.String(), "↻ request failed (529 overloaded), retry 3 of 10 in 2s\n") {
			return poll.Success()
		}
		return poll.Continue("no message")
	})
	assert.NilError(t, os.WriteFile(filepath.Join(tr.dir(), "shown"), nil, 0o600))
	assert.NilError(t, <-done)
}
