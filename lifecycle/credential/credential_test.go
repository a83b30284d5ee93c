package credential

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/config"
)

func TestEveryAgentThatAsksAModelHasAKey(t *testing.T) {
	for _, agent := range config.BuiltinAgents() {
		assert.Equal(t, len(Names(agent)) > 0, agent != "shell", agent)
	}
	assert.Equal(t, len(Names("mine")), 0, "an agent of one's own gets what env.pass names")
}

func TestCollect(t *testing.T) {
	env := map[string]string{"A": "1", "EMPTY": ""}
	got := Collect([]string{"A", "B", "EMPTY", "A"}, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	assert.DeepEqual(t, got, []string{"A=1", "EMPTY="})
}
