package loop

import (
	"context"
	"maps"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/ralph/session"
)

// questionBacklog is a backlog whose agent asks about each task before it can finish it, except
// the last one.
type questionBacklog struct {
	*fileBacklog
	last string
}

func (b questionBacklog) ApplyDefaults(ctx context.Context) (slugs []string, err error) {
	all, err := b.Tasks(ctx)
	for slug, task := range all {
		if all[b.last].Status == statusDone && task.Question != nil {
			task.Question.Answer = task.Question.Default
			task.Status, task.Question, task.Answered = statusOpen, nil, []session.Question{*task.Question}
			b.tasks[slug], slugs = task, append(slugs, slug)
		}
	}
	return slugs, err
}

func (b questionBacklog) Tasks(ctx context.Context) (map[string]session.Task, error) {
	all, err := b.fileBacklog.Tasks(ctx)
	all = maps.Clone(all)
	for slug, task := range all {
		if slug != b.last && task.Status == statusFinished && task.Question == nil && len(task.Answered) == 0 {
			task.Status, task.Question, task.Assignee = statusQuestion, &session.Question{Text: "Which?", Options: []string{"x", "y"}, Default: "y", DefaultAt: noon}, ""
		}
		b.tasks[slug], all[slug] = task, task
	}
	return all, err
}

func (b questionBacklog) Status(ctx context.Context) (status session.Status, err error) {
	all, err := b.Tasks(ctx)
	for _, task := range all {
		switch task.Status {
		case statusOpen:
			status.Open++
		case statusQuestion:
			status.Question++
		case statusDone:
			status.Done++
		}
	}
	return status, err
}

var noon = time.Date(2031, 2, 3, 12, 0, 0, 0, time.UTC)

func TestLoopEndsWhenOnlyQuestionsAreLeft(t *testing.T) {
	tr := newFileLoop(t, `if test -e $DIR/asked; then touch $BACKLOG/b; else touch $DIR/asked $BACKLOG/a; fi`, newFileBacklog(t, "a", "b"))
	tr.Backlog = questionBacklog{fileBacklog: tr.Backlog.(*fileBacklog)}
	tr.Bounds = config.Loop{MaxFailures: 1}
	lines, report, last := logged(t, tr)
	assert.Equal(t, report.Stop, Questions)
	assert.Equal(t, report.Stop.ExitCode(), 12)
	assert.Equal(t, len(report.Iterations), 2)
	assert.Equal(t, report.Iterations[0].Outcome, "question")
	assert.DeepEqual(t, report.Iterations[0].Asked, []string{"a"})
	assert.Equal(t, report.Totals.Released, 0)
	assert.Equal(t, *report.Totals.Left, 2)
	assert.Check(t, cmp.Contains(tr.out.String(), "Task a waits for an answer: Which?\n"))
	assert.Check(t, cmp.Contains(lines, `task a "" question`))
	assert.Check(t, cmp.Contains(lines, `question a Which? [x y] y 2031-02-03T12:00:00Z`))
	assert.Equal(t, last.Now.Counts.Question, 2)
}

func TestNextRunGetsTheDefaultAnswer(t *testing.T) {
	var notes []string
	tr := newFileLoop(t, "", newFileBacklog(t, "a", "b"))
	tr.Agent = noteAgent{`test -e $DIR/asked && touch $BACKLOG/b; touch $DIR/asked $BACKLOG/a`, &notes}
	tr.Backlog = questionBacklog{fileBacklog: tr.Backlog.(*fileBacklog), last: "b"}
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Equal(t, report.Stop, Complete)
	assert.Check(t, cmp.Contains(tr.out.String(), "Task a is open again, default answer: y\n"))
	assert.DeepEqual(t, notes, []string{"", "", "The user has answered questions about open tasks. These are decisions: follow them.\n\n- `a`: Which?\n  Answer: y\n"})
}
