package pattern_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/pattern"
)

func TestAPatternIsCompiledOnce(t *testing.T) {
	digits := pattern.New(`^\d+$`)
	assert.Assert(t, digits().MatchString("12"))
	assert.Assert(t, !digits().MatchString("1a"))
	first := digits()
	assert.Assert(t, digits() == first)
}
