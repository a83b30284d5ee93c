package loop

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

func TestTotalsSeparateFailedAndReleasedTasks(t *testing.T) {
	for outcome, want := range map[string]string{
		outcomeDone:        "1 task done",
		outcomeFailed:      "0 tasks done, 1 failed",
		outcomeUnchecked:   "0 tasks done, 1 failed",
		outcomeTimedOut:    "0 tasks done, 1 failed",
		outcomeIdle:        "0 tasks done, 1 failed",
		outcomeReleased:    "0 tasks done, 1 released",
		outcomeInterrupted: "0 tasks done, 1 released",
		outcomeLimited:     "0 tasks done, 1 released",
		outcomeUnavailable: "0 tasks done, 1 released",
		outcomeLimit:       "0 tasks done, 1 released",
		outcomeOvertaken:   "0 tasks done",
	} {
		total := totalsOf([]runlog.Iteration{{N: 1, Tasks: []string{"a"}, Outcome: outcome}}).String()
		assert.Assert(t, strings.HasPrefix(total, "Total: 1 run, "+want+", 0 commits"), "%s: %s", outcome, total)
	}
}

func TestReasonOfAnOpenTaskIsRecorded(t *testing.T) {
	it := &iteration{released: []string{"a"}, failedByAgent: []string{"b"}}
	it.after.tasks = map[string]session.Task{"b": {Reason: "too \x1b[31mhard\nsecond line"}}
	assert.Equal(t, it.taskReason(), "too hard…")

	entry := runlog.Iteration{N: 1, Tasks: []string{"b"}, Outcome: outcomeReleased, Reason: it.taskReason()}
	assert.Assert(t, strings.HasSuffix(line(entry), " | reason: too hard…"))

	it.reopened = []string{"c"}
	it.after.tasks["c"] = session.Task{Reason: "check \"false\" failed with exit code 1:\noutput"}
	assert.Equal(t, it.taskReason(), `check "false" failed with exit code 1…`)
}
