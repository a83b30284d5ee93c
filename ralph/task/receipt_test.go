package task

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

func TestDoneByTheAgentOfALoopIsFinished(t *testing.T) {
	for _, tc := range []struct {
		access Access
		loop   bool
		want   string
	}{
		{AccessAgent, true, backlog.StatusFinished},
		{AccessAgent, false, backlog.StatusDone},
		{AccessUser, true, backlog.StatusDone},
	} {
		s := hostStore(t)
		var stdout, stderr bytes.Buffer
		io := streams(&stdout, &stderr)
		io.Store, io.Access, io.Agent, io.Loop = s, tc.access, "me", tc.loop
		assert.Equal(t, Run(t.Context(), []string{"done", "mine", "--result", `{"commit":"c0ffee"}`}, io), exitOK, stderr.String())
		assert.Equal(t, stdout.String(), "done mine\n")
		task, err := s.Show(t.Context(), "mine")
		assert.NilError(t, err)
		assert.Equal(t, task.Status, tc.want)
		assert.Equal(t, task.Result, `{"commit":"c0ffee"}`)
		out := asAgent(t, s, "build", "", "list", "--status", tc.want)
		assert.Assert(t, cmp.Regexp(`mine +2 `+tc.want+` +- +mine `, out.stdout))
	}
}

func TestShowPrintsTheReceipt(t *testing.T) {
	s := hostStore(t)
	out := asAgent(t, s, "build", "", "show", "mine")
	assert.Assert(t, !strings.Contains(out.stdout, "Receipt"))
	assert.NilError(t, s.Finish(t.Context(), "mine", ""))
	cost := 0.12345
	accepted, err := s.Accept(t.Context(), "me", map[string]backlog.Receipt{"mine": {
		Commit: "c0ffee", Tree: "7ree", Image: "sha256:1", Loop: "20310203-120000-build", Run: 3, Seconds: 61.26, Model: "m\x1b[2J",
		Checks: []runlog.Check{{Command: "make\ntest", Seconds: 2.04}}, Tokens: &event.Tokens{Input: 10, Output: 2}, CostUSD: &cost, CostEstimated: true,
		Blocked: []denylog.Refusal{{Host: "example.com", Port: 443, Times: 2}},
	}})
	assert.NilError(t, err)
	out = asAgent(t, s, "build", "", "show", "mine")
	_, receipt, found := strings.Cut(out.stdout, "\nReceipt:\n")
	assert.Assert(t, found, out.stdout)
	assert.Equal(t, receipt, `  Done:    `+accepted[0].Time.Format("2006-01-02 15:04:05")+`
  Attempt: 1
  Commit:  c0ffee
  Tree:    7ree
  Image:   sha256:1
  Loop:    20310203-120000-build
  Run:     3, 1m1.3s
  Check:   make test, exit code 0, 2s
  Model:   m
  Tokens:  12
  Cost:    $0.1235 (estimated)
  Blocked: example.com:443 (2)
`)
	out = asAgent(t, s, "build", "", "show", "mine", "--format", "json")
	var shown taskjson.Task
	assert.NilError(t, json.Unmarshal([]byte(out.stdout), &shown))
	assert.Equal(t, shown.Receipt.Commit, "c0ffee")
	assert.Equal(t, shown.Receipt.Checks[0].Command, "make\ntest")
	assert.Assert(t, cmp.Contains(out.stdout, `"exit_code": 0`))
	out = asAgent(t, s, "build", "", "list", "--all", "--format", "json")
	assert.Assert(t, !strings.Contains(out.stdout, "receipt"))
}

func TestReceiptWithLittle(t *testing.T) {
	r := &backlog.Receipt{Attempt: 2, Run: 1, Checks: []runlog.Check{{Command: "x", Failure: "failed with exit code 1"}}}
	assert.DeepEqual(t, receiptLines(r)[1:], []string{"Attempt: 2", "Run:     1, 0s", "Check:   x, failed with exit code 1, 0s"})
}
