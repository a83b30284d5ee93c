package pullrequest

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

func TestBody(t *testing.T) {
	cost := func(usd float64) *float64 { return &usd }
	tasks := []backlog.Task{
		{Slug: "shop/01", Title: "List | filter @alice, fixes #1", Receipt: &backlog.Receipt{
			Loop: "x", Run: 1, Model: "m-1", CostUSD: cost(0.25),
			Checks: []runlog.Check{{Command: "make test | tee `log`", Seconds: 12.34}, {Command: "lint"}},
		}},
		{Slug: "shop/02", Title: "Show", Receipt: &backlog.Receipt{Loop: "x", Run: 1, CostUSD: cost(0.25)}},
		{Slug: "shop/03", Title: "Cart", Receipt: &backlog.Receipt{Loop: "x", Run: 2, CostUSD: cost(1), CostEstimated: true}},
		{Slug: "shop/04", Title: "Free", Receipt: &backlog.Receipt{Loop: "y", Run: 1}},
	}
	assert.Equal(t, bodyOf(tasks, 5), "| task | title | checks | model | cost of the run |\n|---|---|---|---|---|\n"+
		"| `shop/01` | `List \\| filter @alice, fixes #1` | `make test \\| tee 'log'` passed in 12.3s<br>`lint` passed in 0s | `m-1` | $0.25 |\n"+
		"| `shop/02` | `Show` |  |  | $0.25 |\n"+
		"| `shop/03` | `Cart` |  |  | $1.00 (estimated) |\n"+
		"| `shop/04` | `Free` |  |  |  |\n\n"+
		"4 tasks, 5 commits, $1.25 (estimated). Made with [docker ralph](https://github.com/docker-ralph/docker-ralph).\n")
	assert.Equal(t, bodyOf(nil, 1), "0 tasks, 1 commit. Made with [docker ralph](https://github.com/docker-ralph/docker-ralph).\n")
}

// A forge takes 65,536 characters.
func TestBodyIsBounded(t *testing.T) {
	long := strings.Repeat("`", 500)
	r := &backlog.Receipt{Model: long}
	for range 100 {
		r.Checks = append(r.Checks, runlog.Check{Command: long})
	}
	var tasks []backlog.Task
	for range 1000 {
		tasks = append(tasks, backlog.Task{Slug: long, Title: long, Receipt: r})
	}
	body := bodyOf(tasks, 1000)
	assert.Assert(t, len([]rune(body)) < 65_000, "%d", len(body))
	assert.Assert(t, is.Contains(body, "… and 960 more tasks."))
	assert.Assert(t, is.Contains(body, "and 96 more |"))
}

// A code span ends where it has to, and is in one cell.
func TestCode(t *testing.T) {
	for text, want := range map[string]string{
		"":             "",
		" \n ":         "",
		"a\nb\x1b[31m": "`a b`",
		"a`b":          "`a'b`",
		"`":            "`'`",
		"a``b`":        "`a''b'`",
		"a|b":          "`a\\|b`",
		`a\|b`:         "`a\\¦b`",
		"<b>@x</b>":    "`<b>@x</b>`",
	} {
		assert.Check(t, is.Equal(code(text), want), "%q", text)
	}
}
