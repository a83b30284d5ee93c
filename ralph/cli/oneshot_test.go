package cli

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/wire/event"
)

func TestOneshot(t *testing.T) {
	sh, err := exec.LookPath("sh")
	assert.NilError(t, err)
	const said = `echo '{"type":"assistant","message":{"content":[{"type":"text","text":"Hello."}]}}'; `
	for _, tc := range []struct {
		name, script string
		decoder      event.Decoder
		timeout      time.Duration
		code         int
		stdout, err  string
	}{
		{name: "plain", script: "cat", decoder: event.PlainText(), stdout: "the prompt\n"},
		{name: "rendered", script: said, decoder: stream.Claude(), stdout: "Hello.\n"},
		{name: "exit code", script: "exit 3", decoder: event.PlainText(), code: 3},
		{
			name: "calls itself a failure", decoder: stream.Claude(), code: exitFailure,
			script: said + `echo '{"type":"result","subtype":"error_during_execution","is_error":true}'`,
			stdout: "Hello.\n━━ Done (error_during_execution) | cost: $null | turns: null ━━\n",
		},
		{name: "takes too long", script: "sleep 100", decoder: event.PlainText(), timeout: 50 * time.Millisecond, code: exitTimedOut, err: "the run exceeded its time limit of 50ms"},
		{
			name: "key refused", decoder: stream.Claude(), code: exitFailure, err: "mine: the model's endpoint rejected the key: HTTP status 401",
			script: `echo '{"type":"system","subtype":"api_retry","attempt":2,"max_retries":10,"retry_delay_ms":1000,"error_status":401,"error":"authentication_failed"}'; exec sleep 100`,
			stdout: "\n↻ request failed (401 authentication_failed), retry 2 of 10 in 1s\n",
		},
		{name: "leaves a process", script: "sleep 100 & echo done", decoder: event.PlainText(), stdout: "done\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code, err := oneshot{
				Name: "mine", Command: agent.Command{Path: sh, Args: []string{"-c", tc.script}, Stdin: "the prompt"}, Env: os.Environ(),
				Decoder: tc.decoder, Timeout: tc.timeout, Stdout: &stdout, Stderr: &stderr,
			}.run(t.Context())
			if tc.err == "" {
				assert.NilError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.err)
			}
			assert.Equal(t, code, tc.code)
			assert.Equal(t, stdout.String(), tc.stdout)
			assert.Equal(t, stderr.String(), "")
		})
	}
}

func TestOneshotInterrupts(t *testing.T) {
	for _, tc := range []struct {
		name    string
		command []string
		signals int
	}{
		// Not by a shell, which loses a signal while it executes the program.
		{"ends by itself", []string{"sleep", "100"}, 1},
		{"refuses", []string{"sh", "-c", "trap '' INT; sleep 100 & wait; sleep 100"}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			program, err := exec.LookPath(tc.command[0])
			assert.NilError(t, err)
			signals := make(chan os.Signal, 2)
			for range tc.signals {
				signals <- os.Interrupt
			}
			var out bytes.Buffer
			began := time.Now()
			code, err := oneshot{
				Name: "mine", Command: agent.Command{Path: program, Args: tc.command[1:]}, Env: os.Environ(),
				Decoder: event.PlainText(), Signals: signals, Stdout: &out, Stderr: &out,
			}.run(t.Context())
			assert.NilError(t, err)
			assert.Equal(t, code, exitInterrupted)
			assert.Assert(t, time.Since(began) < 90*time.Second, "it was ended, and has not ended")
		})
	}
}
