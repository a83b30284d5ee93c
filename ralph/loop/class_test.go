package loop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/wire/event"
)

// custom is an agent with a program and a format that are unknown.
type custom struct{ script }

func (custom) Name() string           { return "mine" }
func (custom) Decoder() event.Decoder { return event.PlainText() }

// result is what claude prints at the end of a failed run.
func result(text string) string {
	return fmt.Sprintf(`echo '{"type":"result","subtype":"success","is_error":true,"num_turns":1,"result":"%s"}'; exit 1`, text)
}

// denied is what claude prints if its only call is denied.
func denied(list, why string) string {
	call := `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"a","name":"Bash","input":{}}]}}`
	result := `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":"` + why + `"}]}}`
	return "echo '" + call + "'; echo '" + result + "'; echo '" + `{"type":"result","num_turns":2,"result":"I could not.",` + list + "}'"
}

const (
	started = `echo '{"type":"system","subtype":"init","model":"opus"}';`
	retried = `echo '{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":500,"error_status":null,"error":"unknown"}';`
	spoke   = `echo '{"type":"assistant","message":{"id":"1","content":[{"type":"text","text":"Well."}],"usage":{"output_tokens":5}}}';`
)

// endings are the ways in which a run can end.
var endings = []struct {
	name    string
	agent   agent.Adapter
	claims  bool
	class   class
	outcome string
	reason  string // of the run, or its end
}{
	{"503", script(result("API Error: 503 Service unavailable")), true, classWorld, "model unavailable", "API Error: 503 Service unavailable"},
	{"overloaded", script(result("API Error: 529 overloaded_error")), true, classWorld, "rate limited", "529"},
	{"reset", script(started + result("API Error: Connection reset (ECONNRESET)")), false, classWorld, "model unavailable", "ECONNRESET"},
	{"silent endpoint", script(started + "sleep 600"), false, classWorld, "model unavailable", "no answer from the model"},
	{"silent after a retry", script(spoke + retried + "sleep 600"), true, classWorld, "model unavailable", "no answer from the model's endpoint, retry 1 of 10"},
	{"custom agent", custom{"echo API Error: 503 >&2; exit 1"}, true, classWorld, "model unavailable", "API Error: 503"},
	{"malformed answer", script(spoke + result("API Error: API returned an empty or malformed response (HTTP 200)")), true, classWorld, "model unavailable", "malformed response"},
	{"custom agent, reset", custom{"echo 'Error: read ECONNRESET' >&2; exit 1"}, true, classWorld, "model unavailable", "ECONNRESET"},
	{"custom agent, JSON", custom{`echo '{"error":{"code":503,"message":"The model is busy."}}' >&2; exit 1`}, true, classWorld, "model unavailable", "The model is busy."},
	{"custom agent, JSON of several lines", custom{`printf '%s\n' '{' ' "error": {' '  "code": 503,' '  "message": "The model is busy."' ' }' '}'; exit 1`}, true, classWorld, "model unavailable", "The model is busy."},
	{"custom agent without a failure", custom{"echo API Error: 503"}, true, classWorld, "model unavailable", "API Error: 503"},
	{"custom agent, refused", custom{"echo connect ECONNREFUSED 10.0.0.1:443; exit 1"}, false, classWorld, "model unavailable", "ECONNREFUSED"},
	{"crash at the start", custom{"kill -SEGV $$"}, false, classWorld, "model unavailable", "crashed at its start (exit code 139)"},

	{"401", custom{"echo API Error: 401; exit 1"}, true, classForGood, "failed", "key rejected: API Error: 401"},
	{"402", script(result("Credit balance is too low")), true, classForGood, "failed", "Credit balance is too low"},
	{"402 after work", script(spoke + result("Credit balance is too low")), true, classForGood, "failed", "Credit balance is too low"},
	{"unknown model", script(result("There is an issue with the selected model (x).")), false, classForGood, "failed", "selected model"},
	{"unknown model after work", script(spoke + result("There is an issue with the selected model (x).")), true, classForGood, "failed", "selected model"},
	{"401 after work", script(spoke + result("API Error: 401 expired")), true, classForGood, "failed", "key rejected: API Error: 401"},
	{"disabled organization", script(result("Your ANTHROPIC_API_KEY belongs to a disabled organization")), false, classForGood, "failed", "key rejected: Your ANTHROPIC_API_KEY"},
	{"404", custom{"echo API Error: 404 page not found"}, false, classForGood, "failed", "404"},
	{"no such host", script(result("API Error: check your internet or DNS (ENOTFOUND)")), false, classForGood, "failed", "ENOTFOUND"},
	{"a hook denies everything", script(denied(`"permission_denials":[{"tool_name":"Bash","tool_use_id":"a"}]`, "PreToolUse:Bash hook error: no script")), true, classForGood, "failed", "PreToolUse:Bash hook error: no script"},
	{"a rule denies everything", script(denied(`"permission_denials":[{"tool_name":"Bash","tool_use_id":"b"}]`, "")), true, classForGood, "failed", "permission for Bash denied"},
	{"a hook blocks the prompt", script(`echo '{"type":"system","subtype":"informational","prompt_submit_outcome":{"kind":"blocked_by_hook","reason":"no script"}}'; echo '{"type":"result","num_turns":0}'`), false, classForGood, "failed", "a hook blocked the prompt: no script"},
	{"no tool for commands", script(`echo '{"type":"system","subtype":"init","tools":["Read","Edit"]}';` + spoke + `echo '{"type":"result","num_turns":1,"result":"x"}'`), false, classForGood, "failed", "takes away the tool Bash"},
	{"prompt too long", script(result("Prompt is too long")), true, classForGood, "failed", "Prompt is too long"},

	{"silent", script(spoke + "sleep 600"), true, classRun, "silent", "was stopped: no output for "},
	{"silent custom agent", custom{"sleep 600"}, true, classRun, "silent", "was stopped: no output for "},
	{"crash in the middle", custom{"kill -SEGV $$"}, true, classRun, "failed", "exited with code 139"},
	{"prompt too long after work", script(spoke + result("Prompt is too long")), true, classRun, "failed", "Prompt is too long"},
	{"limit in an event", script(`echo crashed; echo '{"type":"user","text":"HTTP 429 Too Many Requests, Retry-After: 3600"}'; exit 1`), true, classRun, "failed", "exited with code 1: crashed"},
	{"another failure", custom{"echo oops; exit 3"}, true, classRun, "failed", "exited with code 3: oops"},
	{"blocked host", custom{"echo 'curl: (22) The requested URL returned error: 403'; exit 1"}, true, classRun, "failed", "error: 403"},
	{"a server of the project", custom{"echo 'connect ECONNREFUSED 127.0.0.1:5432'; exit 1"}, true, classRun, "failed", "ECONNREFUSED"},
	{"a test of the project", custom{"echo 'expected status 200, got status 500'; exit 1"}, true, classRun, "failed", "got status 500"},

	{"gave up", custom{"exit 0"}, true, classNone, "released", ""},
	{"spoke of an error", custom{"echo 'The API error 503 is handled now.'"}, true, classNone, "released", ""},
}

// Each end of a run has one class, which decides what it counts against.
func TestClasses(t *testing.T) {
	for _, tc := range endings {
		t.Run(tc.name, func(t *testing.T) {
			s := newFileBacklog(t, "a")
			if tc.claims {
				s.held = []string{"a"}
			}
			tr := newFileLoop(t, "", s)
			tr.Agent, tr.MaxIterations = tc.agent, 1
			tr.Bounds.MaxWait = time.Second // shorter than any pause
			if strings.Contains(fmt.Sprint(tc.agent), "sleep 600") {
				tr.Bounds.Idle = time.Second
			}
			report, err := Run(t.Context(), tr.Options)
			assert.Equal(t, len(report.Iterations), 1)
			assert.Equal(t, report.Iterations[0].Outcome, tc.outcome)
			assert.Check(t, cmp.Contains(report.Iterations[0].Reason, tc.reason))
			switch tc.class {
			case classWorld:
				assert.Assert(t, report.Stop == Unavailable || report.Stop == RateLimited, report.Stop)
				assert.ErrorContains(t, err, "longer than max_wait (1s)")
				assert.ErrorContains(t, err, tc.reason)
			case classForGood:
				assert.Equal(t, report.Stop, Failed)
				assert.Equal(t, len(hint.Of(err)), 1)
			case classRun:
				assert.Assert(t, report.Stop == RunFailed || report.Stop == Idle, report.Stop)
			default:
				assert.Equal(t, report.Stop, Unfinished)
			}
			forgiven := tc.class == classWorld || tc.class == classForGood
			assert.Equal(t, len(s.forgiven) > 0, forgiven && tc.claims)
			if forgiven && tc.claims {
				assert.Check(t, cmp.Contains(s.notes[0], strings.TrimPrefix(tc.reason, "key rejected: ")), "the task keeps the true reason")
			}
		})
	}
}

// An outage is no iteration and no failure, and the pauses grow.
func TestOutage(t *testing.T) {
	s := newFileBacklog(t, "a")
	tr := newFileLoop(t, "", s)
	tr.Agent = custom{`n=$(cat $DIR/n 2>/dev/null); echo $((n+1)) >$DIR/n; [ "$n" = 4 ] && touch $BACKLOG/a && exit; echo API Error: 503; exit 1`}
	tr.MaxIterations, tr.Bounds.MaxFailures = 1, 1
	tr.timing.outage = time.Millisecond
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Equal(t, report.Stop, Complete)
	assert.Equal(t, len(report.Iterations), 5)
	for _, pause := range []string{"1ms", "2ms", "4ms", "8ms"} {
		assert.Check(t, cmp.Contains(tr.out.String(), `The model of agent mine is not available ("API Error: 503"). Waiting `+pause+", until "))
	}
}

// One bad run does not keep the others from being made.
func TestSilentRunsCountAgainstTheirTask(t *testing.T) {
	s := newFileBacklog(t, "a", "b")
	tr := newFileLoop(t, "", s)
	tr.Agent = custom{`n=$(cat $DIR/n 2>/dev/null); echo $((n+1)) >$DIR/n; [ "$n" ] || exec sleep 600; touch $BACKLOG/a $BACKLOG/b`}
	tr.Bounds.Idle = 300 * time.Millisecond
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Equal(t, report.Stop, Complete)
	assert.Equal(t, report.Iterations[0].Outcome, outcomeIdle)
	assert.Check(t, cmp.Contains(tr.errs.String(), "Warning: the agent was stopped: no output for 300ms\nHint: see the log, or raise idle\n"))
}

// A host that was found before is not wrong.
func TestUnknownHostAfterAnAnswer(t *testing.T) {
	l := &loop{Options: Options{Agent: script(""), Head: func(context.Context) string { return "" }}}
	unknown := func() class {
		it := &iteration{outcome: outcome{code: 1, complaint: "API Error: getaddrinfo ENOTFOUND x"}}
		l.classify(t.Context(), it)
		return it.class
	}
	assert.Equal(t, unknown(), classForGood)
	l.classify(t.Context(), &iteration{outcome: outcome{result: &event.Result{}}})
	assert.Equal(t, unknown(), classWorld)
}
