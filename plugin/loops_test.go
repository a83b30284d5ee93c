package plugin

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

func TestCostTable(t *testing.T) {
	t.Parallel()
	list := []manage.CostRecord{
		{Day: "2031-02-04", Repo: "acme/shop", Branch: "main", Spent: manage.Spent{Runs: 2, Done: 1, Seconds: 3661.4, Tokens: 81204, CostUSD: 2.251, Estimated: true}},
		{Day: "2031-02-03", Repo: "acme/shop", Branch: "main", Spent: manage.Spent{Runs: 3, Unknown: 1, CostUSD: 1}},
		{Day: "2031-02-03", Repo: "acme/shop", Branch: "other", Spent: manage.Spent{Runs: 1, Unknown: 1}},
	}
	var out bytes.Buffer
	assert.NilError(t, writeCosts(&out, "table", list))
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	assert.DeepEqual(t, lines, []string{
		"DAY REPO BRANCH RUNS DONE TIME TOKENS COST",
		"2031-02-04 acme/shop main 2 1 1h1m1s 81.2k ~$2.25",
		"2031-02-03 acme/shop main 3 0 0s 0 $1.00+",
		"2031-02-03 acme/shop other 1 0 0s 0 unknown",
		"total 6 1 1h1m1s 81.2k ~$3.25+",
	})
	out.Reset()
	assert.NilError(t, writeCosts(&out, "json", list))
	var back []map[string]any
	assert.NilError(t, json.Unmarshal(out.Bytes(), &back))
	assert.Equal(t, len(back), 3, "scripts add up themselves")
	assert.Equal(t, back[0]["cost_usd"], 2.251)
	out.Reset()
	assert.NilError(t, writeCosts(&out, "json", nil))
	assert.Equal(t, out.String(), "[]\n")
	assert.ErrorContains(t, writeCosts(&out, "{{.Nothing}}", list), "Nothing")
}

func TestLoopTable(t *testing.T) {
	t.Parallel()
	ended, code := time.Date(2031, 2, 3, 5, 0, 0, 0, time.Local), 5
	list := []manage.LoopRecord{
		{ID: "20310203-040506-build", Command: "build", Branch: "main", Agent: "claude", Started: ended.Add(-time.Hour), Ended: &ended, Stop: "max_cost_usd", ExitCode: &code, Spent: manage.Spent{Runs: 4, Done: 3, CostUSD: 20}},
		{ID: "20310202-040506-plan", Command: "plan", Branch: "main", Started: ended.Add(-25 * time.Hour)},
	}
	var out bytes.Buffer
	assert.NilError(t, writeLoops(&out, "table", list))
	assert.Assert(t, strings.Contains(out.String(), "20310203-040506-build   main      claude    2031-02-03 04:00:00   max cost usd        4"), out.String())
	assert.Assert(t, strings.Contains(out.String(), "running or killed"))
	out.Reset()
	assert.NilError(t, writeLoops(&out, "{{.ID}} {{.ExitCode}} {{.Cost}}", list))
	assert.Equal(t, out.String(), "20310203-040506-build 5 $20.00\n20310202-040506-plan  $0.00\n")
}
