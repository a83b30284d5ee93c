package loop

import (
	"context"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
)

// A task that failed because hosts were blocked waits for the user's decision about them,
// and is not attempted again. Each host is asked about once.
func TestBlockedHostsAreAskedAbout(t *testing.T) {
	const (
		finish = "touch $BACKLOG/a"
		text   = `Allow connections to a.example? They were blocked before the run failed. To allow them, run "docker ralph network allow a.example", then answer.`
	)
	a := denylog.Refusal{Host: "a.example", Port: 443, Times: 3}
	for _, tc := range []struct {
		name, program, check string
		run, checking        []denylog.Refusal // blocked during each
		answered, pending    string            // question of another task
		want                 string            // question
		hosts                string
		notes                string // first words of what happens to the task
	}{
		{name: "check", program: finish, check: "false", checking: []denylog.Refusal{a}, want: "its check failed", hosts: "a.example", notes: "reopen park"},
		{name: "run", program: "exit 1", run: []denylog.Refusal{a}, want: "the run failed", hosts: "a.example", notes: "release park"},
		{name: "run that ends without an error", program: "true", run: []denylog.Refusal{a}, want: "the run failed", hosts: "a.example", notes: "release park"},
		{
			name: "other ports, several hosts", program: "exit 1", want: "the run failed", hosts: "b.example c.example:8443", notes: "release park",
			run: []denylog.Refusal{{Host: "b.example"}, {Host: "b.example", Port: 80}, {Host: "c.example", Port: 8443}},
		},
		{name: "one of two is known", program: "exit 1", run: []denylog.Refusal{a, {Host: "b.example", Port: 443}}, answered: text, want: "the run failed", hosts: "b.example", notes: "release park"},
		{name: "answered", program: "exit 1", run: []denylog.Refusal{a}, answered: text, notes: "release"},
		{name: "asked", program: finish, check: "false", checking: []denylog.Refusal{a}, pending: text, notes: "reopen"},
		{name: "another reason of the check", program: finish, check: "false", run: []denylog.Refusal{a}, notes: "reopen"},
		{name: "no rule can allow it", program: "exit 1", run: []denylog.Refusal{{Host: "a b", Port: 443}}, notes: "release"},
		{name: "the model", program: `echo 'API Error: 503 Service unavailable'; exit 1`, run: []denylog.Refusal{a}, notes: "release"},
		{name: "nothing blocked", program: "exit 1", notes: "release"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newFileBacklog(t, "a", "other")
			other := s.tasks["other"]
			if tc.answered != "" {
				other.Answered = []session.Question{{Text: tc.answered, Answer: "do without them"}}
			}
			if tc.pending != "" {
				other.Status, other.Question = statusQuestion, &session.Question{Text: tc.pending}
			}
			s.tasks["other"] = other
			if tc.program != finish {
				s.held = []string{"a"}
			}
			tr := newFileLoop(t, tc.program, s)
			tr.MaxIterations, tr.Session.Sandboxed = 1, true
			tr.Bounds.MaxWait = 1 // an outage ends the loop
			if tc.check != "" {
				tr.Checks = []string{tc.check}
			}
			answers := [][]denylog.Refusal{nil, tc.run, tc.checking}
			tr.Refused = func(context.Context) denylog.Answer {
				now := answers[0]
				answers = answers[1:]
				return denylog.Answer{Refused: now}
			}
			report, _ := Run(t.Context(), tr.Options)

			var happened []string
			for _, note := range s.notes {
				verb, _, _ := strings.Cut(note, " ")
				happened = append(happened, verb)
			}
			assert.Equal(t, strings.Join(happened, " "), tc.notes)
			if tc.want == "" {
				return
			}
			assert.Equal(t, s.notes[len(s.notes)-1], "park a: Allow connections to "+strings.ReplaceAll(tc.hosts, " ", ", ")+"? They were blocked before "+
				tc.want+`. To allow them, run "docker ralph network allow `+tc.hosts+`", then answer.`)
			assert.DeepEqual(t, s.forgiven, []string{"a"})
			assert.DeepEqual(t, report.Iterations[0].Asked, []string{"a"})
			assert.Equal(t, report.Totals.Released, 0)
		})
	}
}
