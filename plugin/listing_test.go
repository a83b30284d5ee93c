package plugin

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/docker/cli/cli/streams"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/lifecycle/network"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

// Each command with --format prints JSON, a Go template of the same placeholders, and rejects one that no value fits.
func TestFormats(t *testing.T) {
	question := taskjson.OpenQuestion{ID: "a/1", Title: "Pay", Question: taskjson.Question{
		Text: "Which\x1b[2J\nstore?", Options: []string{"x"}, Default: "y", DefaultAt: time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC),
	}}
	rules := network.List{Policy: egress.Allowlist, Rules: []network.Rule{{Host: "a.example", Decision: "allowed", Origin: "preset git", Sent: 1500}}}
	decision := egress.Decision{Time: time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC), Via: "connect", Decision: "refused", Host: "b.example\x1b", Port: 443, Why: "not in allowlist", Hint: "b.example"}
	for _, tc := range []struct {
		name, format, want, err string
		write                   func(out io.Writer, format string) error
	}{
		{name: "version", want: "docker-ralph version v1\n", write: writeV1},
		{name: "version", format: "{{.Version}} {{.OS}}/{{.Arch}}", want: "v1 linux/arm64\n", write: writeV1},
		{name: "version", format: "json", want: "{\n  \"version\": \"v1\",\n  \"go\": \"go1\",\n  \"os\": \"linux\",\n  \"arch\": \"arm64\"\n}\n", write: writeV1},
		{name: "version", format: "{{json .}}", want: `{"version":"v1","go":"go1","os":"linux","arch":"arm64"}` + "\n", write: writeV1},
		{name: "version", format: "{{.Nope}}", err: "can't evaluate field Nope", write: writeV1},
		{name: "version", format: "table {{.Version}}", err: `invalid --format "table {{.Version}}": use "json" or a Go template`, write: writeV1},

		{name: "questions", format: "{{.ID}}: {{.Question}} {{.Options}} {{.DefaultAt}}", want: "a/1: Which store? [y x] 2031-02-03T04:05:06Z\n", write: writeQuestion(question)},
		{name: "questions", format: "table", want: "TASK      TITLE     QUESTION       DEFAULT\na/1       Pay       Which store?   y\n", write: writeQuestion(question)},
		{name: "no questions", format: "json", want: "[]\n", write: func(out io.Writer, format string) error { return printQuestions(out, format, nil) }},
		{name: "all questions", format: "{{.Sandbox}} {{.Repo}} {{.Branch}} {{.ID}}", want: "box acme/shop main a/1\n", write: func(out io.Writer, format string) error {
			return printSandboxQuestions(out, format, []manage.SandboxQuestion{{Sandbox: "box", Repo: "acme/shop", Branch: "main", OpenQuestion: question}})
		}},

		{name: "network ls", format: "table", want: "Policy: allowlist\n\nHOST        DECISION   SENT      RECEIVED   ORIGIN\na.example   allowed    1.5kB     0B         preset git\n", write: writeRules(rules)},
		{name: "network ls", format: "{{.Policy}} {{.Host}}", want: "allowlist a.example\n", write: writeRules(rules)},
		{name: "network ls", format: "{{", err: "template parsing error", write: writeRules(rules)},

		{name: "network log", format: "{{.Time}} {{.Host}}:{{.Port}} {{.Why}}", want: "2031-02-03T04:05:06Z \"b.example\\x1b\":443 not in allowlist\n", write: writeOne(decision)},
		{name: "network log", format: "json", want: `{"t":"2031-02-03T04:05:06Z","via":"connect","decision":"refused","host":"b.example\u001b","port":443,"why":"not in allowlist","hint":"b.example"}` + "\n", write: writeOne(decision)},
		{name: "network log", format: "table", err: `invalid --format "table": use "json" or a Go template`, write: writeOne(decision)},

		{name: "selftest", format: "{{.Check}} {{.Result}} {{.Detail}}", want: "engine ok 29.0.0 at <here>\nbuild project image failed \nBuildKit failed \nsandbox skipped requires \"driver\", which failed\n", write: writeResults},
		{name: "selftest", format: "{{.Nope}}", err: "can't evaluate field Nope", write: writeResults},
		{name: "selftest", format: "table", err: `invalid --format "table": use "json" or a Go template`, write: writeResults},
	} {
		t.Run(tc.name+" "+tc.format, func(t *testing.T) {
			var out strings.Builder
			err := tc.write(&out, tc.format)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, out.String(), tc.want)
		})
	}
}

func writeV1(out io.Writer, format string) error {
	return writeVersion(out, format, versionInfo{Version: "v1", Go: "go1", OS: "linux", Arch: "arm64"})
}

func writeQuestion(q taskjson.OpenQuestion) func(io.Writer, string) error {
	return func(out io.Writer, format string) error {
		return printQuestions(out, format, []taskjson.OpenQuestion{q})
	}
}

func writeRules(list network.List) func(io.Writer, string) error {
	return func(out io.Writer, format string) error { return writeNetwork(out, format, list) }
}

func writeOne(d egress.Decision) func(io.Writer, string) error {
	return func(out io.Writer, format string) error { return writeDecision(out, format, d) }
}

// writeResults stops before the test if the format is wrong.
func writeResults(out io.Writer, format string) error {
	p, err := newResultPrinter(format, streams.NewOut(out))
	if err != nil {
		return err
	}
	p.begin()
	for _, r := range someResults() {
		p.add(r)
	}
	return p.end()
}
