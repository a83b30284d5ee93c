// Package event is what a run of a coding agent reports, whatever the agent
// and the format that it reports in: one model for all adapters.
//
// All text in events is safe for a terminal: decoders pass it through [Strip].
package event

import "time"

// Event is one thing that an agent reports: [Text], [Tool], [Usage],
// [RateLimit], [Retry], [KeyRefused], [Complaint], [Result] or [Resumed].
type Event interface{ event() }

// Text is what the agent says, or output of what it runs. It is shown as it
// is; no newline is added.
type Text struct{ Text string }

// Tool says that the agent calls a tool.
type Tool struct {
	Name string
	// Detail is what the tool is called with, to follow the name directly: it
	// begins with a blank or a newline, or is empty.
	Detail string
}

// Usage is what the run has spent so far. It replaces what was reported
// before.
type Usage struct {
	// Tokens is nil while the agent reports none.
	Tokens *Tokens
	// CostUSD is in US dollars, nil while the agent reports no cost.
	CostUSD *float64
}

// Tokens counts tokens.
type Tokens struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

// Total is the number of tokens of every kind.
func (t Tokens) Total() int64 { return t.Input + t.Output + t.CacheRead + t.CacheWrite }

// RateLimit says that the agent's model refuses to work for a while. Warnings
// that a limit is near are no such event.
type RateLimit struct {
	// Until is when it will work again; zero if the agent does not say.
	Until time.Time
	Text  string // what the agent said, one line
}

// Retry says that a request to the model has failed and that the agent sends it
// again by itself.
type Retry struct {
	Text string // e.g. "request failed (529 overloaded), retry 3 of 10 in 2s"
}

// KeyRefused says that the model's endpoint does not accept the agent's key, or
// that the agent has none. Another try does not help.
type KeyRefused struct{ Text string }

// Complaint is an error that the agent's program reports on the way, e.g.
// that its prompt cannot be read. The last one explains a failed run.
type Complaint struct{ Text string }

// Result is the last word of a run: the agent has nothing more to do.
type Result struct {
	// Failed says that the agent itself calls the run a failure, or that the
	// prompt never reached the model.
	Failed bool
	// Text is the agent's closing text; it may be empty.
	Text string
	// Summary is the run in one line, without a newline, e.g.
	// "Done (success) | cost: $0.0421 | turns: 9".
	Summary string
}

// Resumed says that the agent goes on after a [Result], which was not its last
// word then: some begin another turn by themselves, e.g. to make room in their
// memory, or when something in the background has finished.
type Resumed struct{}

func (Text) event()       {}
func (Tool) event()       {}
func (Usage) event()      {}
func (RateLimit) event()  {}
func (Retry) event()      {}
func (KeyRefused) event() {}
func (Complaint) event()  {}
func (Result) event()     {}
func (Resumed) event()    {}
