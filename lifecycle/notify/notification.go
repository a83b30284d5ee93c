// Package notify sends events of a loop to a command and a webhook of the user. A process of
// its own delivers them, so that the loop neither waits for a delivery nor ends one.
package notify

import "time"

// Notification is an event as commands and webhooks get it, in JSON: see docs/reference/events.md.
type Notification struct {
	Event string    `json:"event"`
	Time  time.Time `json:"time"`
	// Text describes the event in one line.
	Text string `json:"text"`

	Repo     string `json:"repo"`
	Branch   string `json:"branch"`
	Worktree string `json:"worktree"`
	Sandbox  string `json:"sandbox"`
	Command  string `json:"command"` // plan or build

	Run      int       `json:"run,omitempty"` // 0 before the first
	Task     *Task     `json:"task,omitempty"`
	Question *Question `json:"question,omitempty"`
	Limit    *Limit    `json:"limit,omitempty"`
	End      *End      `json:"end,omitempty"`
	// Reason is why a task is blocked, a sandbox was repaired, or a loop is not followed any more.
	Reason string `json:"reason,omitempty"`
}

// The events.
const (
	LoopEnded       = "loop.end"
	TaskBlocked     = "task.blocked"
	QuestionAsked   = "question"
	LimitNear       = "limit"
	SandboxRepaired = "sandbox.repaired"
	ConnectionLost  = "connection.lost"
)

// Task is a task of the backlog.
type Task struct {
	ID    string `json:"id"`
	Title string `json:"title,omitempty"` // empty if unknown
}

// Question is a question that a task waits for.
type Question struct {
	Text      string     `json:"text"`
	Options   []string   `json:"options,omitempty"`
	Default   string     `json:"default,omitempty"`    // the answer after DefaultAt
	DefaultAt *time.Time `json:"default_at,omitempty"` // nil for never
}

// Limit is a limit of the loop, such as max_cost_usd.
type Limit struct {
	Name  string  `json:"name"`
	Used  float64 `json:"used"`
	Limit float64 `json:"limit"`
}

// End is how a loop ended.
type End struct {
	Stop     string `json:"stop,omitempty"` // a word; empty if it was killed
	ExitCode int    `json:"exit_code"`
	Summary  string `json:"summary,omitempty"`
	Error    string `json:"error,omitempty"`
}
