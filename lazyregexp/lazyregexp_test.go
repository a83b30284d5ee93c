package lazyregexp_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

func TestAPatternIsCompiledOnce(t *testing.T) {
	digits := lazyregexp.New(`^\d+$`)
	assert.Assert(t, digits().MatchString("12"))
	assert.Assert(t, !digits().MatchString("1a"))
	first := digits()
	assert.Assert(t, digits() == first)
}
