package attemptref

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestRefIsReversible(t *testing.T) {
	for task, want := range map[string]string{
		"auth/02":       "auth/02/3",
		"a..b.lock":     "a%2E%2Eb%2Elock/3",
		"//a/":          "%2F%2Fa%2F/3",
		"a~^:?*[\\@{":   "a%7E%5E%3A%3F%2A%5B%5C%40%7B/3",
		"zürich\u202e":  "z%C3%BCrich%E2%80%AE/3",
		"-x":            "-x/3",
		"a-0123456/..b": "a-0123456/%2E%2Eb/3",
	} {
		ref := ID{task, 3}.Ref(Prefix, nil)
		assert.Equal(t, ref, Prefix+want)
		back, ok := Task(Prefix, ref)
		assert.Assert(t, ok)
		assert.Equal(t, back, task)
	}
	assert.Assert(t, len(ID{strings.Repeat("ä", 500), 1}.Ref(Prefix, nil)) < 255)
	for _, ref := range []string{"refs/heads/x/1", Unfetched + "x/1", Prefix + "1", Prefix + "/1", Prefix} {
		_, ok := Task(Prefix, ref)
		assert.Assert(t, !ok, ref)
	}
}

// An attempt never replaces another one, and git can create its ref beside the others.
func TestRefIsFree(t *testing.T) {
	for _, tc := range []struct {
		task   string
		n      int
		others string
		want   string
	}{
		{"a", 1, "", "a/1"},
		{"a", 0, "", "a/1"},
		{"a", 1, "a/1", "a/1-2"},
		{"a", 1, "a/1 a/1-2", "a/1-3"},
		{"a", 2, "a/1", "a/2"},
		{"a", 1, "a/1/1", "a/1-2"},         // of the task a/1
		{"a/1", 1, "a/1", "a%2F1/1"},       // of the task a
		{"a/1/x", 1, "a/1", "a%2F1%2Fx/1"}, // likewise
		{"a/1", 1, "a/1 a%2F1/1", "a%2F1/1-2"},
		{"a", 1, "a/10 a/11/2 ab/1", "a/1"},
	} {
		var others []string
		for name := range strings.FieldsSeq(tc.others) {
			others = append(others, Prefix+name)
		}
		ref := ID{tc.task, tc.n}.Ref(Prefix, others)
		assert.Equal(t, ref, Prefix+tc.want)
		back, ok := Task(Prefix, ref)
		assert.Assert(t, ok)
		assert.Equal(t, back, tc.task)
	}
}
