package backlogs

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
)

// Questions returns the questions without an answer in the newest copy. They may have been
// answered since.
func (b Backlog) Questions(scope gitrepo.Scope) ([]taskjson.OpenQuestion, error) {
	copies, err := b.Copies()
	if err != nil || len(copies) == 0 {
		return nil, err
	}
	content, err := os.ReadFile(copies[0].path)
	if err != nil {
		return nil, fmt.Errorf("reading a copy of the backlog: %w", err)
	}
	var c struct {
		Tasks []struct {
			Slug, Title, Status, Questions string
			Repo                           string `json:"scope_repo"`
			Branch                         string `json:"scope_branch"`
		}
	}
	if err := json.Unmarshal(content, &c); err != nil {
		return nil, fmt.Errorf("reading a copy of the backlog: %w", err)
	}
	var open []taskjson.OpenQuestion
	for _, t := range c.Tasks {
		var asked []taskjson.Question
		if t.Repo != scope.Repo || t.Branch != scope.Branch {
			continue
		}
		if t.Status != taskjson.StatusQuestion || json.Unmarshal([]byte(t.Questions), &asked) != nil || len(asked) == 0 {
			continue
		}
		open = append(open, taskjson.OpenQuestion{ID: t.Slug, Title: t.Title, Question: asked[len(asked)-1]})
	}
	return open, nil
}
