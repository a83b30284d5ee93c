package main

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestNobodyAsksTheHolder(t *testing.T) {
	answer, err := answerOne(t.Context(), strings.NewReader(""))
	assert.NilError(t, err)
	assert.Assert(t, answer == nil)
	for _, line := range []string{"\n", "hello\n", "{}\n"} {
		_, err = answerOne(t.Context(), strings.NewReader(line))
		assert.ErrorContains(t, err, "reading what to try", "%q", line)
	}
}
