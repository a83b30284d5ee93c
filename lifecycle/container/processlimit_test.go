package container

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestAgentCommand(t *testing.T) {
	for args, is := range map[string]bool{
		"/opt/ralph/v1/ralph build -n 3": true,
		"ralph plan":                     true,
		"/opt/ralph/v1/ralph run":        true,
		"/opt/ralph/v1/ralph shell":      true,
		"/opt/ralph/v1/ralph _init":      false,
		"/opt/ralph/v1/ralph task list":  false,
		"vi ralph build":                 false,
		"sleep 600":                      false,
	} {
		assert.Equal(t, agentCommand().MatchString(args), is, args)
	}
}
