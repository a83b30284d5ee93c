// Package session joins a command in a sandbox with its docker-ralph process on the host, which owns the backlog.
// A [Client] in the sandbox sends requests over a connection that "ralph _session" relays; a [Door] on the host
// decides who may do what, and answers from the database.
package session

import (
	"context"
	"errors"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// Backlog is what a loop does with its backlog. [Local] has it in a database, [Client] on the host.
type Backlog interface {
	// Register registers the loop as an agent, and releases the tasks of agents that have died.
	Register(ctx context.Context) (Registration, error)
	// Deregister marks an agent as stopped. It is idempotent.
	Deregister(ctx context.Context, agentID string) error
	// BeginRun starts a run of the agent: tasks that were taken from an earlier run are forgotten.
	BeginRun(ctx context.Context, agentID string) error
	Status(ctx context.Context) (Status, error)
	// Tasks returns the tasks by slug.
	Tasks(ctx context.Context) (map[string]Task, error)
	// Claimable reports whether a task can be claimed now.
	Claimable(ctx context.Context) (bool, error)
	// Held returns the active tasks of an agent.
	Held(ctx context.Context, agentID string) ([]string, error)
	// Renew renews the leases of an agent.
	Renew(ctx context.Context, agentID string) error
	// Release fails an active task that the agent holds.
	Release(ctx context.Context, agentID, slug, reason string) error
	// Forgive discounts a failed attempt that the task did not cause.
	Forgive(ctx context.Context, slug string) error
	// Explain puts a cause before the reason why a task has failed.
	Explain(ctx context.Context, slug, cause string) error
	// Reopen makes a task open again that is finished or done.
	Reopen(ctx context.Context, slug, reason string) error
	// Accepted returns the commit of the sandbox's branch that the host has as well; empty if unknown.
	Accepted(ctx context.Context) (string, error)
	// EndRun has the host take the commits of a run whose checks have passed. If it does, the finished tasks are done.
	EndRun(ctx context.Context, r EndOfRun) (Verdict, error)
	// RenameCommit replaces the ID of a commit in the result of a finished task.
	RenameCommit(ctx context.Context, slug, from, to string) error
	// Park makes a task that no agent holds wait for an answer of the user.
	Park(ctx context.Context, slug, question string, options ...string) error
	// ApplyDefaults answers the questions that have waited long enough with their defaults, and returns their tasks.
	ApplyDefaults(ctx context.Context) ([]string, error)
	// Overtaken returns the tasks that another agent has claimed in this run although the agent held them.
	Overtaken(ctx context.Context, agentID string) ([]string, error)
	// AdoptHint returns a hint for a backlog without tasks whose branch was renamed; empty without one.
	AdoptHint(ctx context.Context) (string, error)
}

// Registration is an agent in the backlog, and the state of the others.
type Registration struct {
	ID     string     `json:"id"`
	Dead   []Released `json:"dead,omitempty"`   // tasks of agents that have died
	Others []Agent    `json:"others,omitempty"` // that are running
}

// EndOfRun is a run whose checks have passed.
type EndOfRun struct {
	Agent  string           `json:"agent,omitempty"`
	Commit string           `json:"commit,omitempty"` // of the worktree; empty before the first one
	Tasks  []string         `json:"tasks,omitempty"`  // finished ones
	Run    runlog.Iteration `json:"run"`              // so far: its checks, model, tokens, cost and blocked hosts
}

// Verdict is the answer of the host to the end of a run.
type Verdict struct {
	Refused string `json:"refused,omitempty"` // why the user's repository does not get the commits; empty if it has them
	Finish  string `json:"finish,omitempty"`  // why the loop has to stop; empty if it can go on
	Tree    string `json:"-"`                 // of the commit, for receipts
}

// ErrEnvironment is wrapped if the host could not answer the end of a run for a reason that is not the run's: its disk
// is full, its repository is locked, the engine is gone. The loop asks again later.
var ErrEnvironment = errors.New("the host could not end the run")

// environmentError is a failure of the host.
type environmentError struct{ error }

func (e *environmentError) Unwrap() []error { return []error{ErrEnvironment, e.error} }

// Released is a task released from a dead agent.
type Released struct {
	Agent string `json:"agent"`
	Slug  string `json:"slug"`
}

// Agent is another agent of the backlog.
type Agent struct {
	ID        string `json:"id"`
	StartedAt string `json:"started_at"` // UTC, as YYYY-MM-DD HH:MM:SS
}

// Status counts the tasks of a backlog.
type Status struct {
	Open     int `json:"open"`   // not blocked
	Active   int `json:"active"` // or finished; not blocked
	Done     int `json:"done"`
	Blocked  int `json:"blocked"`  // after too many failures
	Waiting  int `json:"waiting"`  // for tasks that are not done
	Question int `json:"question"` // waiting for an answer
}

// Task is the state of one task.
type Task struct {
	Title     string `json:"title"`  // shortened
	Status    string `json:"status"` // open, active, finished, done, question, deleted; blocked after too many failures
	Assignee  string `json:"assignee,omitempty"`
	ClaimedBy string `json:"claimed_by,omitempty"` // the agent that has claimed it last; empty without one
	Foreign   bool   `json:"foreign,omitempty"`    // the assignee is a registered agent, possibly of another loop
	Attempt   int    `json:"attempt,omitempty"`    // counts claims
	Retries   int    `json:"retries,omitempty"`
	Reason    string `json:"reason,omitempty"` // of the last failure, shortened
	Commit    string `json:"commit,omitempty"` // in the agent's result
	Leased    bool   `json:"leased,omitempty"` // the lease of an active or finished task has not expired
	// Content changes with the task's text, steps or dependencies.
	Content string `json:"content"`
	// Question is nil unless the task waits for an answer.
	Question *Question  `json:"question,omitempty"`
	Answered []Question `json:"answered,omitempty"`
}

// Question is a question of an agent to the user.
type Question struct {
	Text      string    `json:"text"`
	Options   []string  `json:"options,omitempty"`
	Default   string    `json:"default,omitempty"`
	DefaultAt time.Time `json:"default_at,omitzero"` // zero if the default never applies by itself
	Answer    string    `json:"answer,omitempty"`    // empty without one
}
