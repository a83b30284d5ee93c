package plugin

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/docker/cli/cli/streams"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle/selftest"
)

// someResults are one of each kind.
func someResults() []selftest.Result {
	return []selftest.Result{
		{Check: selftest.CheckEngine, OK: true, Detail: "29.0.0 at <here>", Took: 12 * time.Millisecond},
		{Check: selftest.CheckProjectImage, Failed: "deps:2:1: no\n    2 | b\x1b[31mad\n\n      | ^^^\n", Took: 95 * time.Second},
		{Check: selftest.CheckBuildKit, Failed: "none", Remedy: "update", Took: time.Second},
		{Check: selftest.CheckSandbox, Skipped: true, Detail: `requires "driver", which failed`, Took: time.Microsecond},
	}
}

func TestResultsAsATable(t *testing.T) {
	const table = `CHECK                 RESULT       TIME  DETAIL
engine                ok          0.01s  29.0.0 at <here>
build project image   FAILED      1m35s
    deps:2:1: no
        2 | bad
          | ^^^
BuildKit              FAILED      1.00s
    none
    Hint: update
sandbox               skipped            requires "driver", which failed
`
	const coloured = `CHECK                 RESULT       TIME  DETAIL
engine                ` + "\x1b[32mok     \x1b[0m" + `     0.01s  29.0.0 at <here>
build project image   ` + "\x1b[31mFAILED \x1b[0m" + `     1m35s
    deps:2:1: no
        2 | bad
          | ^^^
BuildKit              ` + "\x1b[31mFAILED \x1b[0m" + `     1.00s
    none
    Hint: update
sandbox               ` + "\x1b[33mskipped\x1b[0m" + `            requires "driver", which failed
`
	for _, tc := range []struct {
		name, noColour, want string
		terminal             bool
	}{
		{name: "in a file", want: table},
		{name: "on a terminal", terminal: true, want: coloured},
		{name: "on a terminal without colour", terminal: true, noColour: "1", want: table},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("NO_COLOR", tc.noColour)
			var b bytes.Buffer
			out := streams.NewOut(&b)
			out.SetIsTerminal(tc.terminal)
			p, err := newResultPrinter("", out)
			assert.NilError(t, err)
			p.begin()
			for _, r := range someResults() {
				p.add(r)
			}
			assert.NilError(t, p.end())
			assert.Equal(t, b.String(), tc.want)
		})
	}
}

func TestResultsAsJSON(t *testing.T) {
	for _, tc := range []struct {
		name    string
		results []selftest.Result
		want    string
	}{
		{name: "none", want: `[]`},
		{name: "some", results: someResults(), want: `[
{"check":"engine","ok":true,"detail":"29.0.0 at <here>","failed":"","remedy":"","took_ns":12000000},
{"check":"build project image","ok":false,"detail":"","failed":"deps:2:1: no\n    2 | b\u001b[31mad\n\n      | ^^^\n","remedy":"","took_ns":95000000000},
{"check":"BuildKit","ok":false,"detail":"","failed":"none","remedy":"update","took_ns":1000000000},
{"check":"sandbox","ok":false,"skipped":true,"detail":"requires \"driver\", which failed","failed":"","remedy":"","took_ns":1000}]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b, want bytes.Buffer
			p, err := newResultPrinter("json", streams.NewOut(&b))
			assert.NilError(t, err)
			p.begin()
			for _, r := range tc.results {
				p.add(r)
			}
			assert.NilError(t, p.end())
			assert.NilError(t, json.Indent(&want, []byte(tc.want), "", "  "))
			assert.Equal(t, b.String(), want.String()+"\n")
		})
	}
}
