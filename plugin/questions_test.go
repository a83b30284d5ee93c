package plugin

import (
	"context"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

func TestQuestionsAreSafeForATerminal(t *testing.T) {
	q := taskjson.OpenQuestion{ID: "a/1", Title: "Pay\x1b[2J\nit", Question: taskjson.Question{
		Text: "Which?\nAnd \x1b]0;x\awhy?", Options: []string{"x\ny", "z"}, Default: "z",
	}}
	assert.Equal(t, questionText(q), "a/1: Pay it\n  Which?\n  And why?\n  1. x y\n  2. z (default)\n")
	q.Default, q.DefaultAt = "w", time.Now().Add(8*time.Hour+time.Minute)
	assert.Equal(t, questionText(q), "a/1: Pay it\n  Which?\n  And why?\n  1. w (default in 8 hours)\n  2. x y\n  3. z\n")
}

func TestJSONIsSafeForATerminal(t *testing.T) {
	var out strings.Builder
	assert.NilError(t, writeJSON(&out, []string{"\x1b[2J\u009b2J\x7f"}))
	assert.Equal(t, out.String(), "[\n  \"\\u001b[2J\\u009b2J\\u007f\"\n]\n")
}

func TestAnswersAtATerminal(t *testing.T) {
	options := []string{"red", "blue"}
	for _, tc := range []struct {
		typed string
		q     taskjson.Question
		want  string
	}{
		{"2", taskjson.Question{Options: options}, "blue"},
		{"3", taskjson.Question{Options: options}, "3"},
		{"2", taskjson.Question{Options: []string{"1", "2", "4"}}, "2"},
		{"neither", taskjson.Question{Options: options}, "neither"},
		{"", taskjson.Question{Options: options, Default: "red"}, "red"},
		{"", taskjson.Question{Options: options}, ""},
	} {
		h := host.Host{Ask: func(context.Context, string) (string, error) { return tc.typed, nil }}
		got, err := readAnswer(t.Context(), h, taskjson.OpenQuestion{Question: tc.q})
		if tc.want == "" {
			assert.Error(t, err, "no answer")
			continue
		}
		assert.NilError(t, err)
		assert.Equal(t, got, tc.want)
	}
}
