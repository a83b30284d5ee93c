package loop

import (
	"context"
	"slices"
)

// Backlog is what the loops need of the backlog. It survives what an agent does to
// its files, and knows what the commands of a run have done.
type Backlog interface {
	// Status says how much there is to do.
	Status(ctx context.Context) (Status, error)
	// Tasks returns the tasks by slug.
	Tasks(ctx context.Context) (map[string]Task, error)
	// Claimable says whether an agent could take a task now.
	Claimable(ctx context.Context) (bool, error)
	// Held returns the active tasks of an agent.
	Held(ctx context.Context, agentID string) ([]string, error)
	// Renew keeps the leases of a living agent.
	Renew(ctx context.Context, agentID string) error
	// Release gives an active task back.
	Release(ctx context.Context, slug, reason string) error
	// Forgive takes a failed attempt back that the task was not to blame for.
	Forgive(ctx context.Context, slug string) error
	// Reopen makes a finished task open again.
	Reopen(ctx context.Context, slug, reason string) error
	// Begin begins a run. Its agent needs the variables, as KEY=value.
	Begin() (env []string, err error)
	// Restore undoes what was done to the backlog since the call before, unless
	// commands did it that may, and says what that was.
	Restore(ctx context.Context, agentID string) (damage string, err error)
	// Overtaken returns the tasks that the run has claimed and not finished, and
	// that another agent has claimed since.
	Overtaken(ctx context.Context) ([]string, error)
}

// Status is what the loops want to know about a backlog.
type Status struct {
	Open, Active int // tasks that are not blocked
	Done         int
	Blocked      int // to be done, and not claimable yet
}

// Task is the state of one task.
type Task struct {
	Status   string // open, active, done, deleted; blocked after too many failures
	Assignee string
	// Foreign says that the assignee is an agent of another loop.
	Foreign bool
	Retries int
	Reason  string // why it failed last
	Result  string // JSON as the agent gave it
	// Leased says that an active task's lease has not run out.
	Leased bool
	// Content changes when the task itself does: its words, steps or
	// dependencies.
	Content string
}

// The states of a task that the loops look at.
const (
	statusOpen    = "open"
	statusActive  = "active"
	statusDone    = "done"
	statusDeleted = "deleted"
	statusBlocked = "blocked"
)

// snapshot is what the world looked like before or after a run.
type snapshot struct {
	head   string
	tasks  map[string]Task // nil if they are not known
	status Status
	known  bool // status is
}

// achieved says whether something was done between two snapshots: a commit, or
// the backlog's content. Claiming a task and giving it back is nothing.
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

// finished lists the tasks that an agent has done between two snapshots. So it
// has all that became done meanwhile, with or without a claim, unless the agent
// of another loop holds it: what counts as done must have been checked.
func (before snapshot) finished(after snapshot, agentID string) []string {
	var slugs []string
	for slug, a := range after.tasks {
		if a.Status == statusDone && (a.Assignee == agentID || !a.Foreign) && before.tasks[slug].Status != statusDone {
			slugs = append(slugs, slug)
		}
	}
	return slugs
}

// givenBack lists the tasks that were tried and are not held any more between two
// snapshots, without those of a list. With several loops on one backlog it may
// name another one's.
func (before snapshot) givenBack(after snapshot, without []string) []string {
	var slugs []string
	for slug, a := range after.tasks {
		if (a.Status == statusOpen || a.Status == statusBlocked) && a.Retries > before.tasks[slug].Retries && !slices.Contains(without, slug) {
			slugs = append(slugs, slug)
		}
	}
	return slugs
}

// parked lists the tasks that were blocked between two snapshots, because they
// have failed too often.
func (before snapshot) parked(after snapshot) []string {
	var slugs []string
	for slug, a := range after.tasks {
		if a.Status == statusBlocked && before.tasks[slug].Status != statusBlocked {
			slugs = append(slugs, slug)
		}
	}
	slices.Sort(slugs)
	return slugs
}

// progressed says whether a run brought the work forward: a commit, or a
// finished task. It is the rule of a stall.
func (before snapshot) progressed(after snapshot) bool {
	if before.head != after.head || !before.known || !after.known {
		return before.head != after.head
	}
	return after.status.Done > before.status.Done
}
