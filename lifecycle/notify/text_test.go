package notify

import (
	"fmt"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

func TestLimitsHaveTheirUnit(t *testing.T) {
	for want, limit := range map[string]*Limit{
		"$26.71 of $28.00 (max_cost_usd)":       {"max_cost_usd", 26.711890273, 28},
		"6h24m0s of 8h0m0s (max_duration)":      {"max_duration", 23040.4, 28800},
		"1600000 of 2000000 (max_tokens)":       {"max_tokens", 1.6e6, 2e6},
		"8 of 10 (something from a newer loop)": {"something from a newer loop", 8, 10},
	} {
		assert.Equal(t, fmt.Sprint(limit), want)
	}
}

func TestQuestionsHaveTheirOptions(t *testing.T) {
	task := &Task{ID: "a/1"}
	assert.Equal(t, askedText(task, &runlog.Question{Question: "Which\nstore?"}), "Task a/1 needs an answer: Which store?")
	assert.Equal(t, askedText(task, &runlog.Question{Question: "Which?", Options: []string{"cookie", "re\x1b[2Jdis"}, Default: "cookie"}),
		"Task a/1 needs an answer: Which? 1. cookie (default), 2. redis")
	assert.Assert(t, len(askedText(task, &runlog.Question{Options: make([]string, 1000), Default: "x"})) < 100)
}
