package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

const askUsage = `ask <id> "<question>" [--option ANSWER]... [--default ANSWER] [--default-after DURATION]`

func ask(ctx context.Context, s *session, args []string) error {
	id, rest, err := takeID(args, askUsage)
	if err != nil {
		return err
	}
	if len(rest) == 0 || strings.TrimSpace(rest[0]) == "" {
		return missing("question", askUsage)
	}
	q := backlog.NewQuestion{Text: rest[0]}
	var answer, after, attempt option
	agent := option{value: s.Getenv("RALPH_AGENT_ID")}
	err = flags{
		options: map[string]*option{"--default": &answer, "--default-after": &after, "--agent": &agent, "--attempt": &attempt},
		lists:   map[string]*[]string{"--option": &q.Options},
	}.parse(rest[1:])
	if err != nil {
		return err
	}
	q.Default = answer.value
	if after.given {
		if q.DefaultAfter, err = defaultAfter(after.value); err != nil {
			return err
		}
		if q.Default == "" && len(q.Options) > 0 {
			q.Default = q.Options[0]
		}
		if q.Default == "" {
			return errors.New("--default-after requires --default or --option")
		}
	}
	if err := s.fence(id, attempt); err != nil {
		return err
	}
	if err := s.store.Ask(ctx, id, agent.value, q); err != nil {
		return err
	}
	s.printf("asked %s\n", id)
	return nil
}

func defaultAfter(value string) (time.Duration, error) {
	after, err := time.ParseDuration(value)
	if err != nil || after < time.Second {
		return 0, fmt.Errorf("--default-after must be a duration such as 8h or 30m, got: %s", value)
	}
	return after, nil
}

// questions lists the open questions.
func questions(ctx context.Context, s *session, args []string) error {
	var format option
	if err := (flags{options: map[string]*option{"--format": &format}}).parse(args); err != nil {
		return err
	}
	asJSON, err := isJSON(format)
	if err != nil {
		return err
	}
	if _, err := s.store.ApplyDefaults(ctx); err != nil {
		return err
	}
	tasks, err := s.store.Questions(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return s.printQuestionsJSON(tasks)
	}
	for i, t := range tasks {
		if i > 0 {
			s.print("\n")
		}
		s.printQuestion(t)
	}
	return nil
}

// isJSON parses the value of --format.
func isJSON(format option) (bool, error) {
	switch format.value {
	case "json":
		return true, nil
	case "", "table":
		return false, nil
	}
	return false, fmt.Errorf("--format must be table or json, got: %s", format.value)
}

// printQuestionsJSON prints a JSON array.
func (s *session) printQuestionsJSON(tasks []backlog.Task) error {
	type line struct {
		ID    string `json:"id"`
		Title string `json:"title"`
		backlog.Question
	}
	lines := []line{}
	for _, t := range tasks {
		q, _ := t.Pending()
		lines = append(lines, line{t.Slug, t.Title, q})
	}
	return s.printJSON(lines)
}

func (s *session) printJSON(value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	s.print(escapeControls(string(text)) + "\n")
	return nil
}

func (s *session) printQuestion(t backlog.Task) {
	q, _ := t.Pending()
	s.printf("%s: %s\n  %s\n", t.Slug, oneLine(t.Title), strings.ReplaceAll(q.Text, "\n", "\n  "))
	for _, o := range choices(q) {
		s.printf("  - %s%s\n", oneLine(o), defaultMark(q, o))
	}
}

// choices returns the options of a question, with its default.
func choices(q backlog.Question) []string {
	if q.Default == "" || slices.Contains(q.Options, q.Default) {
		return q.Options
	}
	return append([]string{q.Default}, q.Options...)
}

func defaultMark(q backlog.Question, answer string) string {
	switch {
	case answer != q.Default:
		return ""
	case q.DefaultAt != "":
		return " (default from " + q.DefaultAt + " UTC)"
	}
	return " (default)"
}

func answer(ctx context.Context, s *session, args []string) error {
	id, rest, err := takeID(args, "answer <id> [<answer>]")
	if err != nil {
		return err
	}
	text := ""
	if len(rest) > 0 {
		text, rest = rest[0], rest[1:] // it may begin with a dash
	}
	if err := (flags{}).parse(rest); err != nil {
		return err
	}
	if s.Getenv(backlog.RunEnv) != "" {
		return errors.New("only the user can answer a question")
	}
	q, err := s.store.Answer(ctx, id, text)
	if err != nil {
		return err
	}
	s.printf("answered %s: %s\n", id, oneLine(q.Answer))
	return nil
}
