package streamjson

import (
	"encoding/json"
	"strings"
	"time"
)

// Result is how one run of an agent ended, as the agent itself says.
type Result struct {
	// Reported says that there was a result event at all.
	Reported bool
	// Subtype is e.g. "success" or "error_max_turns".
	Subtype string
	IsError bool
	// Turns counts the model's turns. Claude ends with "success" and no turn
	// when the prompt never reached the model.
	Turns    int
	CostUSD  float64
	Duration time.Duration
	Usage    Usage
	// Text is the agent's closing text, without control characters.
	Text string
	// Complaint is the last thing the agent's program itself said instead of
	// running the prompt, e.g. that a command in a skill failed.
	Complaint string
}

// Usage counts tokens.
type Usage struct {
	Input, Output, CacheRead, CacheWrite int64
}

// Failed says whether the agent reports a run that did no work: an error, or
// a prompt that never reached the model. Without a report it is false.
func (r Result) Failed() bool {
	return r.Reported && (r.IsError || r.Turns == 0)
}

// read takes the figures from a result event. Each field is read on its own,
// so that one of an unexpected type does not cost the others.
func (r *Result) read(line []byte) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil {
		return
	}
	complaint := r.Complaint
	*r = Result{Reported: true, Complaint: complaint}
	get := func(name string, v any) { _ = json.Unmarshal(fields[name], v) }
	var millis float64
	var usage struct {
		Input      int64 `json:"input_tokens"`
		Output     int64 `json:"output_tokens"`
		CacheRead  int64 `json:"cache_read_input_tokens"`
		CacheWrite int64 `json:"cache_creation_input_tokens"`
	}
	get("subtype", &r.Subtype)
	get("is_error", &r.IsError)
	get("num_turns", &r.Turns)
	get("total_cost_usd", &r.CostUSD)
	get("duration_ms", &millis)
	get("usage", &usage)
	get("result", &r.Text)
	r.Subtype, r.Text = Strip(r.Subtype), Strip(r.Text)
	r.Duration = time.Duration(millis) * time.Millisecond
	r.Usage = Usage(usage)
}

// noteComplaint keeps what claude says when it refuses a prompt: a user
// message with the standard error of the local command.
func (r *Result) noteComplaint(message json.RawMessage) {
	var m struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(message, &m) != nil {
		return
	}
	if _, rest, ok := strings.Cut(m.Content, "<local-command-stderr>"); ok {
		said, _, _ := strings.Cut(rest, "</local-command-stderr>")
		r.Complaint = strings.TrimSpace(Strip(said))
	}
}
