package leftoverref

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestNameIsReversible(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for task, want := range map[string]string{
		"auth/02":       "auth/02-0123456",
		"a..b.lock":     "a%2E%2Eb%2Elock-0123456",
		"//a/":          "%2F%2Fa%2F-0123456",
		"a~^:?*[\\@{":   "a%7E%5E%3A%3F%2A%5B%5C%40%7B-0123456",
		"zürich\u202e":  "z%C3%BCrich%E2%80%AE-0123456",
		"-x":            "-x-0123456",
		"a-0123456/..b": "a-0123456/%2E%2Eb-0123456",
	} {
		ref := Name(task, commit)
		assert.Equal(t, ref, Prefix+want)
		back, ok := Task(ref)
		assert.Assert(t, ok)
		assert.Equal(t, back, task)
	}
	assert.Assert(t, len(Name(strings.Repeat("ä", 500), commit)) < 255)
	for _, ref := range []string{"refs/heads/x-0123456", Prefix + "-012345", Prefix} {
		_, ok := Task(ref)
		assert.Assert(t, !ok, ref)
	}
}
