package loop

import (
	"context"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// Backlog is the loop's access to the backlog. It survives an agent's changes to its
// files, and tracks the commands of a run.
type Backlog interface {
	Status(ctx context.Context) (Status, error)
	// Tasks returns the tasks by slug.
	Tasks(ctx context.Context) (map[string]Task, error)
	// Claimable reports whether a task can be claimed now.
	Claimable(ctx context.Context) (bool, error)
	// Held returns the active tasks of an agent.
	Held(ctx context.Context, agentID string) ([]string, error)
	// Renew renews the leases of an agent.
	Renew(ctx context.Context, agentID string) error
	// Release fails an active task.
	Release(ctx context.Context, slug, reason string) error
	// Forgive discounts a failed attempt that the task did not cause.
	Forgive(ctx context.Context, slug string) error
	// Reopen makes a finished task open again.
	Reopen(ctx context.Context, slug, reason string) error
	// RenameCommit replaces the ID of a commit in the result of a finished task.
	RenameCommit(ctx context.Context, slug, from, to string) error
	// Park makes a task that no agent holds wait for an answer of the user.
	Park(ctx context.Context, slug, question string, options ...string) error
	// ApplyDefaults answers the questions that have waited long enough with their
	// defaults, and returns their tasks.
	ApplyDefaults(ctx context.Context) ([]string, error)
	// Begin starts a run and returns variables for its agent, as KEY=value.
	Begin() (env []string, err error)
	// Restore undoes changes since the previous call other than those of ralph's
	// commands, and describes them.
	Restore(ctx context.Context, agentID string) (damage string, err error)
	// Claimed reports whether the run has claimed a task.
	Claimed(slug string) bool
	// Overtaken returns the run's claimed tasks that another agent has claimed since.
	Overtaken(ctx context.Context) ([]string, error)
}

// Status counts the tasks of a backlog.
type Status struct {
	Open, Active int // tasks that are not blocked
	Done         int
	Blocked      int // after too many failures
	Waiting      int // for tasks that are not done
	Question     int // waiting for an answer
}

func (s Status) counts() runlog.Counts {
	return runlog.Counts{Open: s.Open, Active: s.Active, Done: s.Done, Blocked: s.Blocked, Waiting: s.Waiting, Question: s.Question}
}

// Task is the state of one task.
type Task struct {
	Title    string
	Status   string // open, active, done, question, deleted; blocked after too many failures
	Assignee string
	Foreign  bool // the assignee is a registered agent, possibly of another loop
	Attempt  int  // counts claims
	Retries  int
	Reason   string // of the last failure
	Result   string // the agent's JSON
	Leased   bool   // an active task's lease has not expired
	// Content changes with the task's text, steps or dependencies.
	Content string
	// Question is nil unless the task waits for an answer.
	Question *Question
	Answered []Question
}

// Question is a question of an agent to the user.
type Question struct {
	Text      string
	Options   []string
	Default   string
	DefaultAt time.Time // zero if the default never applies by itself
	Answer    string    // empty without one
}

const (
	statusOpen     = "open"
	statusActive   = "active"
	statusDone     = "done"
	statusDeleted  = "deleted"
	statusBlocked  = "blocked"
	statusQuestion = "question"
)

// snapshot is the state before or after a run.
type snapshot struct {
	head   string
	tasks  map[string]Task // nil if unknown
	status Status
	known  bool // whether status is
}

// achieved reports whether a run committed or changed the backlog other than by
// claiming and releasing tasks.
func (before snapshot) achieved(after snapshot) bool {
	if before.head != after.head || len(before.tasks) != len(after.tasks) {
		return true
	}
	if before.known && after.known && before.status.Done != after.status.Done {
		return true
	}
	for slug, a := range after.tasks {
		b, existed := before.tasks[slug]
		if !existed || a.Content != b.Content || (a.Status != b.Status && final(a.Status, b.Status)) {
			return true
		}
	}
	return false
}

func final(states ...string) bool {
	for _, s := range states {
		if s != statusOpen && s != statusActive {
			return true
		}
	}
	return false
}

// finished lists the tasks that became done, claimed or not, except those of agents of
// other loops: every task that counts as done must have been checked.
func (before snapshot) finished(after snapshot, agentID string) []string {
	var slugs []string
	for slug, a := range after.tasks {
		if a.Status == statusDone && (a.Assignee == agentID || !a.Foreign) && before.tasks[slug].Status != statusDone {
			slugs = append(slugs, slug)
		}
	}
	return slugs
}

// failedByAgent lists the tasks that the agent failed itself.
func (before snapshot) failedByAgent(after snapshot, without []string) []string {
	var slugs []string
	for slug, a := range after.tasks {
		if (a.Status == statusOpen || a.Status == statusBlocked) && !a.Foreign && a.Retries > before.tasks[slug].Retries && !slices.Contains(without, slug) {
			slugs = append(slugs, slug)
		}
	}
	return slugs
}

// asked lists the tasks that wait for an answer since the run.
func (before snapshot) asked(after snapshot) []string {
	var slugs []string
	for slug, a := range after.tasks {
		if a.Question != nil && !a.Foreign && before.tasks[slug].Status != statusQuestion {
			slugs = append(slugs, slug)
		}
	}
	slices.Sort(slugs)
	return slugs
}

// newlyBlocked lists the tasks that were blocked after too many failures, except by other loops.
func (before snapshot) newlyBlocked(after snapshot) []string {
	var slugs []string
	for slug, a := range after.tasks {
		if a.Status == statusBlocked && !a.Foreign && before.tasks[slug].Status != statusBlocked {
			slugs = append(slugs, slug)
		}
	}
	slices.Sort(slugs)
	return slugs
}

// progressed reports whether a run committed or finished a task.
func (before snapshot) progressed(after snapshot) bool {
	if before.head != after.head || !before.known || !after.known {
		return before.head != after.head
	}
	return after.status.Done > before.status.Done
}
