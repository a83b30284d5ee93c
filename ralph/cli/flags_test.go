package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/wire/runflags"
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
		{"bounds", agent.Build, "--max-duration 4h --stall 0 --idle 5 --max-cost-usd 2.50", loopFlags{bounds: []boundFlag{
			{"--max-duration", "max_duration", "4h"}, {"--stall", "stall", "0"}, {"--idle", "idle", "5"}, {"--max-cost-usd", "max_cost_usd", "2.50"},
		}}, ""},
		{"bound without value", agent.Build, "--stall --danger", loopFlags{}, "--stall requires a value"},
		{"bound that is none", agent.Build, "--max-duration 4", loopFlags{}, "--max-duration \"4\": must be 0 or a duration such as 90m or 1h30m, at most a year"},
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
			assert.Equal(t, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", tc.want))
		})
	}
	for _, mode := range []agent.Mode{agent.Plan, agent.Build} {
		for _, f := range runflags.Of(string(mode)) { // those in the help, which completion offers
			args := []string{f.Long}
			if f.Value != "" {
				args = append(args, map[string]string{"FORMAT": "json", "TIME": "1h"}[f.Value])
			}
			if args[len(args)-1] == "" {
				args[len(args)-1] = "5"
			}
			_, err := parseLoopFlags(mode, args)
			assert.NilError(t, err)
		}
		for flag := range boundKeys() {
			assert.Assert(t, slices.ContainsFunc(runflags.Of(string(mode)), func(f runflags.Flag) bool { return f.Long == flag }), flag)
		}
	}
	_, err := parseLoopFlags(agent.Build, []string{"-n", ""})
	assert.Error(t, err, "--max-iterations requires a number")
}
