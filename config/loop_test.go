package config

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func TestLoadLoopChecksAndAgents(t *testing.T) {
	root := write(t, "ralph.toml", `
[loop]
max_duration = "4h"
max_cost_usd = 2.5
max_tokens = 1_000_000
max_failures = 0
stall = 0
idle = 5
max_wait = "0"
grace = "90s"
[checks]
timeout = "20m"
commands = ["make test", "git diff --check && echo \"fine\""]
[agents.mine]
command = ["my-agent", "--json={\"a\":1}", "{prompt}"]
stream = "claude"
[agents.yours]
stream = "text"
keys = "openai"
command = ["your-agent"]
`)
	e, err := Load(Sources{Root: root})
	assert.NilError(t, err)
	zero := 0
	assert.DeepEqual(t, e.Loop, Loop{
		MaxDuration: 4 * time.Hour, MaxCostUSD: 2.5, MaxTokens: 1e6, Stall: &zero,
		Idle: 5 * time.Minute, Grace: 90 * time.Second, CheckTimeout: 20 * time.Minute,
	})
	assert.DeepEqual(t, e.Checks, []string{"make test", `git diff --check && echo "fine"`})
	assert.DeepEqual(t, e.Agents, map[string]CustomAgent{
		"mine":  {Command: []string{"my-agent", `--json={"a":1}`, "{prompt}"}, Stream: "claude"},
		"yours": {Command: []string{"your-agent"}, Stream: "text", Keys: "openai"},
	})
	assert.Equal(t, e.Origins["loop.idle"].Line, 8)
	assert.Equal(t, e.Origins[KeyChecks].Line, 13)
	assert.Equal(t, e.Origins["agents.mine.command"].Line, 15)
	var raised []string
	for _, s := range e.Privileged {
		raised = append(raised, s.Key)
	}
	assert.DeepEqual(t, raised, []string{"checks.timeout", "loop.grace", "loop.max_failures", "loop.max_wait", "loop.stall"})
	for name, want := range map[string]string{"claude": "claude", "mine": "", "yours": "openai"} {
		e.Agent.Name = name
		assert.Equal(t, e.KeyAgent(), want)
	}

	value, err := e.Guest(true).Encode()
	assert.NilError(t, err)
	g, err := DecodeGuest(value)
	assert.NilError(t, err)
	assert.DeepEqual(t, g, e.Guest(true))
}

func TestLaterSourcesReplaceListsAndAgents(t *testing.T) {
	root := write(t, "ralph.toml", "[checks]\ncommands = [\"a\", \"b\"]\n[agents.x]\ncommand = [\"a\"]\nstream = \"codex\"\n[agents.y]\ncommand = [\"y\"]\n")
	user := write(t, "config.toml", "[checks]\ncommands = [\"c\"]\n[agents.x]\ncommand = [\"b\"]\n")
	e, err := Load(Sources{Root: root, UserDir: user, Getenv: env(map[string]string{"RALPH_IDLE": "7", "RALPH_MAX_COST_USD": "1.5"})})
	assert.NilError(t, err)
	assert.DeepEqual(t, e.Checks, []string{"c"})
	assert.DeepEqual(t, e.Agents, map[string]CustomAgent{
		"x": {Command: []string{"b"}, Stream: "text"}, "y": {Command: []string{"y"}, Stream: "text"},
	})
	assert.Equal(t, e.Loop.Idle, 7*time.Minute)
	assert.Equal(t, e.Loop.MaxCostUSD, 1.5)
}

func TestAgentWithoutCommand(t *testing.T) {
	_, err := Load(Sources{Root: write(t, "ralph.toml", "[agents.x]\nstream = \"text\"\n")})
	assert.ErrorContains(t, err, "[agents.x]: missing command")
}

func TestLoopSet(t *testing.T) {
	for _, tc := range []struct{ key, value, want string }{
		{"max_duration", "90", "must be 0 or a duration such as 90m"},
		{"max_duration", "1ms", "must be 0 or a duration such as 90m"},
		{"max_wait", "-1h", "must be 0 or a duration such as 90m"},
		{"grace", "0", "at least 1s"},
		{"max_cost_usd", "NaN", "an amount in US dollars"},
		{"max_cost_usd", "inf", "an amount in US dollars"},
		{"max_tokens", "1.5", "an integer"},
		{"stall", "x", "an integer"},
		{"rate", "1", "no such limit"},
	} {
		t.Run(tc.key+" "+tc.value, func(t *testing.T) {
			var l Loop
			assert.ErrorContains(t, l.Set(tc.key, tc.value), tc.want)
		})
	}
}

func TestGuestTooLarge(t *testing.T) {
	_, err := Guest{Checks: []string{strings.Repeat("x", maxGuest)}}.Encode()
	assert.ErrorContains(t, err, "larger than 64 KiB")
}
