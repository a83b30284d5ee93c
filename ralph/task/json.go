package task

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

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

func (s *session) printJSON(value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	s.print(termsafe.JSON(string(text)) + "\n")
	return nil
}

func taskJSON(t backlog.Task) taskjson.Task {
	out := taskjson.Task{
		ID: t.Slug, Title: t.Title, Status: t.Status, Priority: t.Priority, Category: t.Category, Description: t.Description,
		Spec: t.SpecRef, Ref: t.Ref, Steps: t.Steps, Assignee: t.Assignee, LeaseExpiresAt: timeOf(t.LeaseExpiresAt),
		Retries: t.RetryCount, FailReason: t.FailReason, Questions: t.Questions,
		CreatedAt: timeOf(t.CreatedAt), UpdatedAt: timeOf(t.UpdatedAt), DeletedAt: timeOf(t.DeletedAt),
	}
	if t.Result != "" {
		out.Result = json.RawMessage(compactJSON(t.Result))
	}
	out.Receipt = t.Receipt
	for _, b := range t.Blockers {
		out.Deps = append(out.Deps, taskjson.Dep{ID: b.Slug, Status: b.Status})
	}
	return out
}

// timeOf parses a time of the database; another program may have stored anything.
func timeOf(text string) time.Time {
	t, _ := time.Parse(time.DateTime, text)
	return t
}
