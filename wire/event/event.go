// Package event models the output of a coding agent, independent of its format.
//
// All text in events is safe for a terminal: decoders strip control sequences.
package event

import "time"

// Event is one thing that an agent reports: [Text], [Tool], [ToolResult], [Model], [Usage],
// [RateLimit], [Retry], [KeyRefused], [Complaint], [Denied], [HookFailed], [Result] or [Resumed].
type Event interface{ event() }

// Text is output of the agent or of its commands, displayed unchanged.
type Text struct{ Text string }

// Tool is a tool call of the agent.
type Tool struct {
	ID   string // for its result; empty if unknown
	Name string
	// Detail describes the arguments. It is empty or begins with white space.
	Detail string
}

// ToolResult is the result of a tool call.
type ToolResult struct {
	ID     string // of the call
	Failed bool
	Text   string // the end of its output
}

// Model is the name of the model that the agent uses.
type Model struct{ Name string }

// Usage is the total usage of the run so far. Unreported fields are nil.
type Usage struct {
	Tokens  *Tokens
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

// Plus returns the sum.
func (t Tokens) Plus(u Tokens) Tokens {
	return Tokens{
		Input: t.Input + u.Input, Output: t.Output + u.Output,
		CacheRead: t.CacheRead + u.CacheRead, CacheWrite: t.CacheWrite + u.CacheWrite,
	}
}

// RateLimit reports that a rate limit was reached.
type RateLimit struct {
	Until time.Time // zero if unknown
	Text  string    // message of the agent, one line
}

// Retry reports that the agent retries a failed request to the model.
type Retry struct {
	Text string // e.g. "request failed (529 overloaded), retry 3 of 10 in 2s"
}

// KeyRefused reports that the API key is missing or was rejected.
type KeyRefused struct{ Text string }

// Complaint is an error message of the agent. The last one explains a failed run.
type Complaint struct{ Text string }

// Denied reports that the agent's settings denied tool calls of the run, before its [Result].
type Denied struct {
	Calls int    // that were denied
	All   bool   // the agent could do nothing
	Text  string // the reason of the last one, one line
}

// HookFailed reports a hook of the agent's settings that failed without denying anything.
type HookFailed struct{ Text string }

// Result is the end of a run.
type Result struct {
	// Failed reports that the agent failed, or that the prompt did not reach the
	// model.
	Failed bool
	// Text is the final message of the agent; it can be empty.
	Text string
	// Summary is the run in one line, without a newline, e.g.
	// "Done (success) | cost: $0.0421 | turns: 9".
	Summary string
}

// Resumed reports that the agent continues after a [Result], for example to compact
// its context or when a background task has finished.
type Resumed struct{}

func (Text) event()       {}
func (Tool) event()       {}
func (Model) event()      {}
func (ToolResult) event() {}
func (Usage) event()      {}
func (RateLimit) event()  {}
func (Retry) event()      {}
func (KeyRefused) event() {}
func (Complaint) event()  {}
func (Denied) event()     {}
func (HookFailed) event() {}
func (Result) event()     {}
func (Resumed) event()    {}
