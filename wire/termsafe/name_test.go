package termsafe

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestName(t *testing.T) {
	for name, want := range map[string]string{
		"a b/é.txt":           "a b/é.txt",
		"x\rWarning: nothing": `"x\rWarning: nothing"`,
		"x\x1b[2K":            `"x\x1b[2K"`,
		"x\nHint: run it":     `"x\nHint: run it"`,
		"x\u202etxt":          `"x\u202etxt"`,
		"\xff":                `"\xff"`,
	} {
		assert.Equal(t, Name(name), want)
	}
}
