package help

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestHelpOfTasks(t *testing.T) {
	text := Task()
	assert.Check(t, strings.HasPrefix(text, "Usage:  docker ralph task COMMAND"))
	assert.Check(t, is.Contains(text, "\n  create <id> <title>"))
	assert.Check(t, is.Contains(text, "\nFor agents and scripts:\n  plan-sync, plan-status, "))
	assert.Check(t, !strings.Contains(text, "--lease"))
	for _, name := range []string{"create", "delete", "claim", "edit", "agent"} {
		assert.Check(t, is.Contains(TaskCommand(name), "\n  "+name+" "))
	}
	assert.Equal(t, strings.Count(TaskCommand("agent"), "\n  agent "), 3)
	assert.Check(t, !strings.Contains(TaskCommand("create"), "\n  update"))
	for _, none := range []string{"nonsense", "", "The"} {
		assert.Equal(t, TaskCommand(none), "")
	}
}
