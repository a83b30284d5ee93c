// Package stream decodes the output formats of coding agents, and writes Claude's for the
// shell agent.
package stream

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Claude returns a decoder of what "claude --output-format stream-json"
// prints. Lines that are not JSON objects are skipped.
func Claude() event.Decoder {
	c := &claude{messages: map[string]event.Tokens{}}
	return event.Lines(c.line)
}

type claude struct {
	ending
	// messages holds the usage of each response. A response has several events, each with
	// the usage of the whole response.
	messages map[string]event.Tokens
	denials  claudeDenials
}

// claudeEvent is an event. Fields are raw where versions of claude differ in type.
type claudeEvent struct {
	Type    string          `json:"type"`
	Subtype json.RawMessage `json:"subtype"`
	Message json.RawMessage `json:"message"`
	Error   json.RawMessage `json:"error"` // of a synthetic response
	Model   json.RawMessage `json:"model"` // of the session
}

func (c *claude) line(line []byte) []event.Event {
	var e claudeEvent
	if line[0] != '{' || json.Unmarshal(line, &e) != nil {
		return nil
	}
	switch e.Type {
	case "assistant":
		events := append(c.work(), c.answer(e.Message)...)
		c.denials.count(events)
		if scalar(e.Error) == claudeNoKey {
			events = append(events, event.KeyRefused{Text: lastText(events)})
		}
		return events
	case "system":
		switch scalar(e.Subtype) {
		case "api_retry":
			return claudeRetry(line)
		case "hook_response":
			return claudeHookFailed(line)
		case "informational":
			return c.denials.informational(line)
		case "init":
			c.denials.session(line)
			return modelEvents(text(e.Model))
		}
		return nil
	case "user":
		results := claudeToolResults(e.Message)
		c.denials.count(results)
		return append(results, claudeComplaint(e.Message)...)
	case "rate_limit_event":
		return claudeLimit(line)
	case "result":
		return c.claudeResult(line)
	default:
		return nil
	}
}

// claudeNoKey is claude's error for a missing or rejected key.
const claudeNoKey = "authentication_failed"

// claudeRetry decodes a failed request. Claude also retries with a rejected key, as a
// login may have been renewed, so the first rejection does not count.
func claudeRetry(line []byte) []event.Event {
	var e struct {
		Attempt int     `json:"attempt"`
		Most    int     `json:"max_retries"`
		Delay   float64 `json:"retry_delay_ms"`
		Status  int     `json:"error_status"` // 0 without a response
		Error   string  `json:"error"`
	}
	if json.Unmarshal(line, &e) != nil {
		return nil
	}
	what := "no answer from the model's endpoint"
	if e.Status != 0 {
		what = fmt.Sprintf("request failed (%d %s)", e.Status, termsafe.Strip(e.Error))
	}
	wait := (time.Duration(e.Delay) * time.Millisecond).Round(100 * time.Millisecond)
	events := []event.Event{event.Retry{Text: fmt.Sprintf("%s, retry %d of %d in %s", what, e.Attempt, e.Most, wait)}}
	if e.Error == claudeNoKey && e.Attempt > 1 {
		events = append(events, event.KeyRefused{Text: fmt.Sprintf("HTTP status %d", e.Status)})
	}
	return events
}

// lastText returns the last text.
func lastText(events []event.Event) string {
	for _, e := range slices.Backward(events) {
		if said, ok := e.(event.Text); ok {
			return said.Text
		}
	}
	return ""
}

// answer decodes a message of the model.
func (c *claude) answer(raw json.RawMessage) []event.Event {
	var message struct {
		ID      string          `json:"id"`
		Content json.RawMessage `json:"content"`
		Usage   json.RawMessage `json:"usage"`
	}
	if json.Unmarshal(raw, &message) != nil {
		return nil
	}
	events := claudeContent(message.Content)
	var usage claudeUsage
	if len(message.Usage) > 0 && json.Unmarshal(message.Usage, &usage) == nil {
		c.messages[message.ID] = event.Tokens(usage)
		var sum event.Tokens
		for _, t := range c.messages {
			sum = sum.Plus(t)
		}
		events = append(events, event.Usage{Tokens: &sum})
	}
	return events
}

func claudeContent(raw json.RawMessage) []event.Event {
	var blocks []json.RawMessage
	if json.Unmarshal(raw, &blocks) != nil {
		return nil
	}
	var events []event.Event
	for _, raw := range blocks {
		var block struct {
			Type  string          `json:"type"`
			ID    string          `json:"id"`
			Text  json.RawMessage `json:"text"`
			Name  json.RawMessage `json:"name"`
			Input json.RawMessage `json:"input"`
		}
		if json.Unmarshal(raw, &block) != nil {
			continue
		}
		switch block.Type {
		case "text":
			events = append(events, event.Text{Text: text(block.Text)})
		case "tool_use":
			name := scalar(block.Name)
			events = append(events, event.Tool{ID: block.ID, Name: name, Detail: toolDetail(name, block.Input)})
		}
	}
	return events
}

// claudeToolResults decodes the results of tools in a user message.
func claudeToolResults(raw json.RawMessage) (events []event.Event) {
	var message struct {
		Content []struct {
			Type    string          `json:"type"`
			ID      string          `json:"tool_use_id"`
			Content json.RawMessage `json:"content"`
			Failed  bool            `json:"is_error"`
		} `json:"content"`
	}
	if json.Unmarshal(raw, &message) != nil {
		return nil
	}
	for _, block := range message.Content {
		if block.Type == "tool_result" {
			events = append(events, toolResult(block.ID, block.Failed, claudeText(block.Content)))
		}
	}
	return events
}

// claudeText returns the text of a result: a string or a list of blocks.
func claudeText(raw json.RawMessage) string {
	var blocks []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &blocks) != nil {
		return text(raw)
	}
	var all []string
	for _, block := range blocks {
		all = append(all, block.Text)
	}
	return strings.Join(all, "\n")
}

// claudeComplaint decodes the error of a rejected prompt: a user message with the stderr
// of a local command.
func claudeComplaint(raw json.RawMessage) []event.Event {
	var message struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(raw, &message) != nil {
		return nil
	}
	_, rest, found := strings.Cut(message.Content, "<local-command-stderr>")
	if !found {
		return nil
	}
	said, _, _ := strings.Cut(rest, "</local-command-stderr>")
	return []event.Event{event.Complaint{Text: strings.TrimSpace(termsafe.Strip(said))}}
}

// claudeLimit decodes rate limits. Most events report that none is reached.
func claudeLimit(line []byte) []event.Event {
	var e struct {
		Info struct {
			Status   string  `json:"status"`
			ResetsAt float64 `json:"resetsAt"` // seconds since 1970
			Kind     string  `json:"rateLimitType"`
			Paid     bool    `json:"isUsingOverage"` // continues with paid usage
		} `json:"rate_limit_info"`
	}
	if json.Unmarshal(line, &e) != nil || e.Info.Status != "rejected" || e.Info.Paid {
		return nil
	}
	kind := termsafe.Strip(strings.ReplaceAll(e.Info.Kind, "_", " "))
	limit := event.RateLimit{Text: strings.TrimSpace(kind + " limit reached"), Until: epoch(e.Info.ResetsAt)}
	return []event.Event{limit}
}

// claudeUsage counts tokens as Anthropic's API does.
type claudeUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

// claudeResult decodes a result. Fields are decoded separately, so that an unexpected type
// does not lose the others.
func (c *claude) claudeResult(line []byte) []event.Event {
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil {
		return nil
	}
	get := func(name string, v any) bool {
		return !isNull(fields[name]) && json.Unmarshal(fields[name], v) == nil
	}
	var spent event.Usage
	var usd float64
	if get("total_cost_usd", &usd) {
		spent.CostUSD = &usd
	}
	spent.Tokens = claudeTotal(fields)
	var result event.Result
	var turns float64
	get("is_error", &result.Failed)
	get("num_turns", &turns)
	if !get("result", &result.Text) {
		var errs []string
		get("errors", &errs)
		result.Text = strings.Join(errs, "\n")
	}
	// Claude reports "success" without a turn if the prompt did not reach the model.
	if turns == 0 && !result.Failed && result.Text == "" {
		result.Text = "the prompt never reached the model"
	}
	result.Failed = result.Failed || turns == 0
	result.Text = termsafe.Strip(result.Text)
	how := scalar(fields["subtype"])
	if result.Failed && how == "success" {
		how = "error" // claude also reports "success" if the request failed
	}
	result.Summary = fmt.Sprintf("Done (%s) | cost: $%s | turns: %s",
		how, cost(fields["total_cost_usd"]), scalar(fields["num_turns"]))
	var events []event.Event
	if spent != (event.Usage{}) {
		events = append(events, spent)
	}
	if result.Failed {
		events = append(events, limitEvents(result.Text)...)
	}
	events = append(events, c.denials.events(fields["permission_denials"])...)
	return append(events, c.result(result))
}

// claudeTotal returns the tokens of all models including subagents; older versions report
// only the main conversation's.
func claudeTotal(fields map[string]json.RawMessage) *event.Tokens {
	var models map[string]struct {
		Input      int64 `json:"inputTokens"`
		Output     int64 `json:"outputTokens"`
		CacheRead  int64 `json:"cacheReadInputTokens"`
		CacheWrite int64 `json:"cacheCreationInputTokens"`
	}
	if json.Unmarshal(fields["modelUsage"], &models) == nil && len(models) > 0 {
		var sum event.Tokens
		for _, m := range models {
			sum = sum.Plus(event.Tokens(m))
		}
		return &sum
	}
	var usage claudeUsage
	if isNull(fields["usage"]) || json.Unmarshal(fields["usage"], &usage) != nil {
		return nil
	}
	sum := event.Tokens(usage)
	return &sum
}
