package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/config/runflags"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
)

func TestFlags(t *testing.T) {
	for _, tc := range []struct {
		name string
		mode agent.Mode
		args string
		want loopFlags
		err  string
	}{
		{"plan", agent.Plan, "", loopFlags{maxIterations: 1}, ""},
		{"build", agent.Build, "", loopFlags{}, ""},
		{"all", agent.Build, "-n 3 -m opus --danger", loopFlags{maxIterations: 3, model: "opus", danger: true}, ""},
		{"long", agent.Plan, "--max-iterations 4 --model x", loopFlags{maxIterations: 4, model: "x"}, ""},
		{"last wins", agent.Build, "-n 3 -n 5", loopFlags{maxIterations: 5}, ""},
		{"build without bound", agent.Build, "-n 0", loopFlags{}, ""},
		{"help ends it", agent.Plan, "-n 2 --help --nonsense", loopFlags{maxIterations: 2, help: true}, ""},
		{"error before help", agent.Plan, "--nonsense --help", loopFlags{}, "Unknown option '--nonsense'\nRun 'ralph plan --help' for usage"},
		{"plan without runs", agent.Plan, "-n 0", loopFlags{}, "plan mode requires at least 1 iteration (-n 0 is not allowed)"},
		{"no number", agent.Plan, "-n", loopFlags{}, "--max-iterations requires a number"},
		{"flag as number", agent.Plan, "-n -m x", loopFlags{}, "--max-iterations requires a number"},
		{"word as number", agent.Build, "-n abc", loopFlags{}, "--max-iterations requires a number"},
		{"negative", agent.Build, "-n -1", loopFlags{}, "--max-iterations requires a number"},
		{"no alias", agent.Build, "--model", loopFlags{}, "--model requires an alias (e.g. opus-4.5, sonnet, haiku)"},
		{"flag as alias", agent.Build, "-m --danger", loopFlags{}, "--model requires an alias (e.g. opus-4.5, sonnet, haiku)"},
		{"equals sign", agent.Build, "--model=x", loopFlags{}, "Unknown option '--model=x'\nRun 'ralph build --help' for usage"},
		{"bound without value", agent.Build, "--stall --danger", loopFlags{}, "--stall requires a value"},
		{"bound that is none", agent.Build, "--max-duration 4", loopFlags{}, "--max-duration must be 0 or a duration such as 90m or 1h30m, at most a year"},
		{"JSON", agent.Plan, "--format json --resume", loopFlags{maxIterations: 1, json: true, resume: true}, ""},
		{"format", agent.Plan, "--format yaml", loopFlags{}, "--format requires text or json"},
		{"positional", agent.Build, "now", loopFlags{}, "Unknown option 'now'\nRun 'ralph build --help' for usage"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseLoopFlags(tc.mode, strings.Fields(tc.args))
			if tc.err != "" {
				assert.Error(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			got.given, got.all = nil, nil
			assert.Equal(t, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", tc.want))
		})
	}
	_, err := parseLoopFlags(agent.Build, []string{"-n", ""})
	assert.Error(t, err, "--max-iterations requires a number")
}

func TestLimitsOfFlags(t *testing.T) {
	args := []string{"--max-iterations", "5"}
	for _, f := range runflags.Of(runflags.Build).Flags {
		if f.Key != "" {
			args = append(args, "--"+f.Name, map[string]string{"TIME": "1h", "USD": "2.50", "N": "4", "MINUTES": "5"}[f.Arg])
		}
	}
	f, err := parseLoopFlags(agent.Build, args)
	assert.NilError(t, err)
	got, err := f.bound(config.DefaultLoop())
	assert.NilError(t, err)
	stall := 4
	assert.DeepEqual(t, got, config.Loop{
		MaxDuration: time.Hour, MaxCostUSD: 2.5, MaxTokens: 4, MaxFailures: 4, Stall: &stall, Idle: 5 * time.Minute, MaxWait: time.Hour,
		Grace: config.DefaultLoop().Grace, CheckTimeout: config.DefaultLoop().CheckTimeout,
	})
}
