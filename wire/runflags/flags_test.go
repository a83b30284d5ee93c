package runflags

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestFlagsOfTheHelp(t *testing.T) {
	assert.DeepEqual(t, Of("run"), []Flag{
		{Long: "--model", Short: "-m", Value: "ALIAS", Usage: "Model to use: an alias of models.json (opus-4.6, opus-4.5, sonnet, haiku) or a model ID"},
		{Long: "--prompt", Short: "-p", Value: "PROMPT", Usage: "Print the answer to this prompt"},
		{Long: "--danger", Usage: "Skip the agent's permission prompts. This is the default in a sandbox of docker ralph"},
		{Long: "--help", Short: "-h", Usage: "Print usage"},
	})
	assert.Assert(t, len(Of("build")) >= 13)
	assert.Equal(t, len(Of("nonsense")), 0)
}
