package task

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
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
	agent := s.agentFlag()
	err = flags{
		options: map[string]*option{"--default": &answer, "--default-after": &after, "--agent": &agent, "--attempt": &attempt},
		lists:   map[string]*[]string{"--option": &q.Options},
	}.parse(rest[1:])
	if err != nil {
		return err
	}
	if err := s.checkAgent(agent); err != nil {
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
		open := []taskjson.OpenQuestion{}
		for _, t := range tasks {
			q, _ := t.Pending()
			open = append(open, taskjson.OpenQuestion{ID: t.Slug, Title: t.Title, Question: q})
		}
		return s.printJSON(open)
	}
	for i, t := range tasks {
		if i > 0 {
			s.print("\n")
		}
		s.printQuestion(t)
	}
	return nil
}

func (s *session) printQuestion(t backlog.Task) {
	q, _ := t.Pending()
	s.printf("%s: %s\n  %s\n", t.Slug, oneLine(t.Title), strings.ReplaceAll(q.Text, "\n", "\n  "))
	for _, o := range q.Choices() {
		s.printf("  - %s%s\n", oneLine(o), defaultMark(q, o))
	}
}

func defaultMark(q backlog.Question, answer string) string {
	switch {
	case answer != q.Default:
		return ""
	case !q.DefaultAt.IsZero():
		return " (default from " + q.DefaultAt.Format(time.DateTime) + " UTC)"
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
	if s.Store == nil && s.Getenv("RALPH_AGENT_ID") != "" {
		return errors.New("only the user can answer a question")
	}
	q, err := s.store.Answer(ctx, id, text)
	if err != nil {
		return err
	}
	s.printf("answered %s: %s\n", id, oneLine(q.Answer))
	return nil
}
