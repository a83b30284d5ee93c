package loop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// answersInPrompt limits the list of answers in a prompt; "ralph task show" has all.
const answersInPrompt = 20

// isOpen reports whether an agent still has to work on the task.
func isOpen(t session.Task) bool {
	return !slices.Contains([]string{statusFinished, statusDone, statusDeleted, statusQuestion}, t.Status)
}

// waiting lists the tasks that wait for an answer, sorted.
func (s snapshot) waiting() []string {
	var slugs []string
	for _, slug := range slices.Sorted(maps.Keys(s.tasks)) {
		if s.tasks[slug].Question != nil {
			slugs = append(slugs, slug)
		}
	}
	return slugs
}

// reportQuestions prints the questions that a run has asked.
func (l *loop) reportQuestions(it *iteration) {
	for _, slug := range it.asked {
		l.printf("Task %s waits for an answer: %s\n", termsafe.Line(slug), termsafe.Line(it.after.tasks[slug].Question.Text))
	}
}

// applyDefaults answers the questions whose time is up. It is tried again before each
// run, and by each claim.
func (l *loop) applyDefaults(ctx context.Context) []string {
	if l.Backlog == nil {
		return nil
	}
	slugs, err := l.Backlog.ApplyDefaults(ctx)
	if err != nil {
		l.warnOnce("questions", "applying default answers: %s", err)
	}
	return slugs
}

// reportDefaults reports the tasks that applyDefaults has reopened.
func (l *loop) reportDefaults(slugs []string) {
	for _, slug := range slugs {
		task, text := l.last.tasks[slug], "default answer"
		if n := len(task.Answered); n > 0 {
			text += ": " + cut(termsafe.Line(task.Answered[n-1].Answer))
		}
		l.printf("Task %s is open again, %s\n", termsafe.Line(slug), text)
		l.emit(&runlog.TaskChange{N: l.events.now.N, ID: slug, Title: task.Title, Status: statusOpen, Reason: text})
	}
}

// answers lists the user's answers about open tasks for the prompt.
func (l *loop) answers() string {
	var lines []string
	for _, slug := range slices.Sorted(maps.Keys(l.last.tasks)) {
		if task := l.last.tasks[slug]; isOpen(task) {
			for _, q := range task.Answered {
				lines = append(lines, fmt.Sprintf("- `%s`: %s\n  Answer: %s", termsafe.Line(slug), termsafe.Line(q.Text), termsafe.Line(q.Answer)))
			}
		}
	}
	if len(lines) == 0 {
		return ""
	}
	if more := len(lines) - answersInPrompt; more > 0 {
		lines = append(lines[:answersInPrompt], fmt.Sprintf("- %d more: see `ralph task show <id>`", more))
	}
	return "The user has answered questions about open tasks. These are decisions: follow them.\n\n" + strings.Join(lines, "\n") + "\n"
}
