// Package taskjson has the JSON of "ralph task list", "show", "questions" and "import", for ralph
// in the sandbox and the plugin on the host. Its names are part of the interface. The
// backlog stores questions like this as well, so that copies of it can be read.
package taskjson

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// StatusQuestion is the status of a task that waits for an answer from the user.
const StatusQuestion = "question"

// Task is a task of the backlog.
type Task struct {
	ID             string          `json:"id"`
	Title          string          `json:"title"`
	Status         string          `json:"status"`
	Priority       int             `json:"priority"`
	Category       string          `json:"category,omitempty"`
	Description    string          `json:"description,omitempty"`
	Spec           string          `json:"spec,omitempty"`
	Ref            string          `json:"ref,omitempty"`
	Steps          []string        `json:"steps,omitempty"`
	Deps           []Dep           `json:"deps,omitempty"`
	Assignee       string          `json:"assignee,omitempty"`
	LeaseExpiresAt time.Time       `json:"lease_expires_at,omitzero"`
	Retries        int             `json:"retries"`
	FailReason     string          `json:"fail_reason,omitempty"`
	Result         json.RawMessage `json:"result,omitempty"`
	Questions      []Question      `json:"questions,omitempty"` // oldest first
	// Attempts are refs of what runs of the task have left that is not on the branch, newest first.
	Attempts []string `json:"attempts,omitempty"`
	// Receipt is the latest one; of show only.
	Receipt   *Receipt  `json:"receipt,omitempty"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	DeletedAt time.Time `json:"deleted_at,omitzero"`
}

// Dep is a task that another one depends on.
type Dep struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

// Receipt proves that a task is done: what the user's repository took, and how it came about.
type Receipt struct {
	Task    string    `json:"task"`
	Attempt int       `json:"attempt"` // of the task
	Time    time.Time `json:"time"`
	// Commit is the last one of the run, and Tree its tree. They are empty if the repository has no commit.
	Commit string `json:"commit,omitempty"`
	Tree   string `json:"tree,omitempty"`
	Image  string `json:"image,omitempty"` // digest of the sandbox's
	Loop   string `json:"loop,omitempty"`  // its ID
	Run    int    `json:"run"`
	// Checks have passed on the commit.
	Checks        []runlog.Check    `json:"checks,omitempty"`
	Model         string            `json:"model,omitempty"`
	Tokens        *event.Tokens     `json:"tokens,omitempty"` // nil if unknown, like the cost
	CostUSD       *float64          `json:"cost_usd,omitempty"`
	CostEstimated bool              `json:"cost_estimated,omitempty"`
	Blocked       []denylog.Refusal `json:"blocked,omitempty"` // connections
	Seconds       float64           `json:"seconds"`           // of the run and its checks
}

// Question is a question about a task and its answer.
type Question struct {
	Text       string    `json:"question"`
	Options    []string  `json:"options,omitempty"`
	Default    string    `json:"default,omitempty"`
	DefaultAt  time.Time `json:"default_at,omitzero"` // when Default becomes the answer
	AskedAt    time.Time `json:"asked_at,omitzero"`
	Answer     string    `json:"answer,omitempty"`
	AnsweredAt time.Time `json:"answered_at,omitzero"`
	Defaulted  bool      `json:"defaulted,omitempty"` // the answer is the default, because its time was up
}

// Choices returns the options, with the default.
func (q Question) Choices() []string {
	for _, o := range q.Options {
		if o == q.Default {
			return q.Options
		}
	}
	if q.Default == "" {
		return q.Options
	}
	return append([]string{q.Default}, q.Options...)
}

// Choose returns the answer that a user has typed: the number of a choice, nothing for the
// default, or any text.
func (q Question) Choose(typed string) string {
	choices := q.Choices()
	n, err := strconv.Atoi(typed)
	switch {
	case typed == "":
		return q.Default
	case err == nil && n >= 1 && n <= len(choices) && !slices.Contains(choices, typed):
		return choices[n-1]
	}
	return typed
}

// OpenQuestion is a question without an answer.
type OpenQuestion struct {
	ID    string `json:"id"` // of the task
	Title string `json:"title"`
	Question
}

// Import is the result of "ralph task import". Tasks are named by their IDs.
type Import struct {
	Source    string   `json:"source"` // the format of the file
	DryRun    bool     `json:"dry_run,omitempty"`
	Created   []string `json:"created"`
	Updated   []string `json:"updated"`
	Unchanged []string `json:"unchanged"`
	Kept      []Kept   `json:"kept"`
	// Dropped are messages about what was not imported.
	Dropped       []string `json:"dropped"`
	IgnoredFields []string `json:"ignored_fields"`
}

// Kept is a task that was not overwritten, or not completely.
type Kept struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}
