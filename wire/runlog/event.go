package runlog

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/event"
)

// Event is a line of a loop's event log. In JSON, the fields of Data are beside time
// and type. docs/reference/events.md describes them for users.
type Event struct {
	Time time.Time
	Data Data
	// Next is the offset after the event in the file that it was read from.
	Next int64
}

// Data is what an event is about: a pointer to [LoopStart], [LoopResume], [RunStart],
// [State], [UsageSoFar], [TaskChange], [Question], [LimitNear], [RunEnd] or [LoopEnd].
type Data interface{ Type() string }

// LoopStart is the start of a loop.
type LoopStart struct {
	Mode   string `json:"mode"`
	Agent  string `json:"agent"`
	Branch string `json:"branch,omitempty"`
	Limits Limits `json:"limits"`
	Tasks  Counts `json:"tasks"`
}

// LoopResume is the continuation of an ended or killed loop.
type LoopResume struct {
	Reason string `json:"reason"`
	Limits Limits `json:"limits"`
	Tasks  Counts `json:"tasks"`
}

// Limits are the limits of a loop; 0 means none.
type Limits struct {
	MaxIterations   int     `json:"max_iterations,omitempty"` // of this start
	MaxCostUSD      float64 `json:"max_cost_usd,omitempty"`
	MaxTokens       int64   `json:"max_tokens,omitempty"`
	MaxDurationSecs float64 `json:"max_duration_seconds,omitempty"`
}

// Counts counts the tasks of a backlog.
type Counts struct {
	Open     int `json:"open"`   // can be claimed
	Active   int `json:"active"` // or finished
	Done     int `json:"done"`
	Blocked  int `json:"blocked"`  // after too many failures
	Waiting  int `json:"waiting"`  // for other tasks
	Question int `json:"question"` // waiting for an answer
}

// Left is the number of tasks that are not done.
func (c Counts) Left() int { return c.Open + c.Active + c.Blocked + c.Waiting + c.Question }

// RunStart is the start of a run of the agent. It has no task yet: the agent claims one.
type RunStart struct {
	N      int    `json:"n"`
	Commit string `json:"commit,omitempty"` // of the worktree
}

// LoopState is what a loop does or waits for.
type LoopState string

// States of a loop. A killed loop stays in its last state.
const (
	StateWorking     LoopState = "working"
	StateChecking    LoopState = "checking"
	StateRateLimited LoopState = "rate_limited" // the loop or the agent waits
	StateRetrying    LoopState = "retrying"     // the agent repeats a failed request to the model, or the loop a run
	StateWaiting     LoopState = "waiting"      // for what the text says, or for other loops, which hold all remaining tasks
	StateEnded       LoopState = "ended"
)

// State is a change of the loop's state.
type State struct {
	N     int       `json:"n,omitempty"` // current or last run
	State LoopState `json:"state"`
	Until time.Time `json:"until,omitzero"`
	Text  string    `json:"text,omitempty"` // e.g. the agent's message or the check
}

// Usage is what a run or a loop has used. Fields are nil if unknown.
type Usage struct {
	Tokens  *event.Tokens `json:"tokens"`
	CostUSD *float64      `json:"cost_usd"`
}

// UsageSoFar is the usage of an unfinished run.
type UsageSoFar struct {
	N int `json:"n"`
	Usage
}

// TaskChange is a change of a task.
type TaskChange struct {
	N      int    `json:"n,omitempty"` // run
	ID     string `json:"id"`
	Title  string `json:"title"`
	Status string `json:"status"` // open, active, finished, done, blocked, question, deleted
	Reason string `json:"reason,omitempty"`
}

// Question is a question of an agent about its task, which waits for the answer.
type Question struct {
	N         int       `json:"n,omitempty"` // run
	ID        string    `json:"id"`          // of the task
	Title     string    `json:"title"`
	Question  string    `json:"question"`
	Options   []string  `json:"options,omitempty"`
	Default   string    `json:"default,omitempty"`
	DefaultAt time.Time `json:"default_at,omitzero"`
}

// LimitNear reports once that 80 % of a limit is used.
type LimitNear struct {
	N     int     `json:"n,omitempty"`
	Name  string  `json:"name"` // max_cost_usd, max_tokens, max_duration (in seconds)
	Used  float64 `json:"used"`
	Limit float64 `json:"limit"`
}

// RunEnd is the end of a run.
type RunEnd struct{ Iteration }

// LoopEnd is the end of a loop.
type LoopEnd struct {
	Stop     string `json:"stop"`
	ExitCode int    `json:"exit_code"`
	Error    string `json:"error,omitempty"`   // why it did not succeed, in one line
	Summary  string `json:"summary,omitempty"` // its totals, in one line
}

// Type returns the type of the event in JSON.
func (*LoopStart) Type() string { return "loop.start" }

// Type returns the type of the event in JSON.
func (*LoopResume) Type() string { return "loop.resume" }

// Type returns the type of the event in JSON.
func (*RunStart) Type() string { return "run.start" }

// Type returns the type of the event in JSON.
func (*State) Type() string { return "state" }

// Type returns the type of the event in JSON.
func (*UsageSoFar) Type() string { return "usage" }

// Type returns the type of the event in JSON.
func (*TaskChange) Type() string { return "task" }

// Type returns the type of the event in JSON.
func (*Question) Type() string { return "question" }

// Type returns the type of the event in JSON.
func (*LimitNear) Type() string { return "limit" }

// Type returns the type of the event in JSON.
func (*RunEnd) Type() string { return "run.end" }

// Type returns the type of the event in JSON.
func (*LoopEnd) Type() string { return "loop.end" }

// newData returns empty data of a type, or nil.
func newData(name string) Data {
	for _, d := range []Data{
		&LoopStart{}, &LoopResume{}, &RunStart{}, &State{}, &UsageSoFar{}, &TaskChange{}, &Question{}, &LimitNear{}, &RunEnd{}, &LoopEnd{},
	} {
		if d.Type() == name {
			return d
		}
	}
	return nil
}

type eventHead struct {
	Time time.Time `json:"time"`
	Type string    `json:"type"`
}

// MarshalJSON returns the event as in the log.
func (e Event) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(eventHead{e.Time, e.Data.Type()})
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(e.Data)
	if err != nil {
		return nil, err
	}
	return slices.Concat(head[:len(head)-1], []byte(","), data[1:]), nil // no data is empty
}

// UnmarshalJSON parses a line of the log. The caller strips control characters.
func (e *Event) UnmarshalJSON(line []byte) error {
	var head eventHead
	if err := json.Unmarshal(line, &head); err != nil {
		return err
	}
	data := newData(head.Type)
	if data == nil {
		return fmt.Errorf("unknown type of event %q", head.Type)
	}
	e.Time, e.Data = head.Time, data
	return json.Unmarshal(line, data)
}
