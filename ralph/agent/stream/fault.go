package stream

import (
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Fault is why a model could not be used, by what helps against it.
type Fault int

// The faults. Those up to Unavailable end by themselves.
const (
	NoFault Fault = iota
	RateLimited
	Unavailable     // an outage, or no connection
	KeyRefused      // no key, or a rejected one
	Unpaid          // the account has no credit
	UnknownModel    // or one without access
	UnknownEndpoint // no such path
	UnknownHost     // no host of that name
	PromptTooLong
	Crashed // the agent's program
	Denied  // its settings, every tool call
)

// Message is an error message about a fault.
type Message struct {
	Fault Fault
	event.RateLimit
}

// WithText returns the message with a text.
func (m Message) WithText(text string) Message {
	m.Text = text
	return m
}

// errnoWords are the names of failed connections.
const errnoWords = `\be(?:connrefused|connreset|connaborted|timedout|ai_again|hostunreach|netunreach|pipe)\b`

// modelWords and connectWords are in the messages of any agent about its model. Those with
// ownWords are about a server in the sandbox: no model is there.
var (
	modelWords   = words(`\b(?:api|model|llm|\w*anthropic|\w*openai|claude|gemini|inference)(?:\b|[a-z]*(?:error|exception)\b)`, `api[ _-]?(?:error|key)`, `credit balance`, `prompt is too long`)
	connectWords = words(`connect`, `socket hang up`, `fetch failed`, `bad gateway`, `unavailable`, `gateway time-?out`, `stream disconnected`, errnoWords)
	ownWords     = words(`\blocalhost\b`, `\b127\.0\.0\.1\b`, `\b0\.0\.0\.0\b`, `::1\b`)
)

// AboutModel reports whether the message is about a model even if its program is unknown.
func (m Message) AboutModel() bool {
	switch {
	case m.Fault == RateLimited, modelWords().MatchString(m.Text):
		return true
	}
	return m.Fault == Unavailable && connectWords().MatchString(m.Text) && !ownWords().MatchString(m.Text)
}

// faultWords are the messages of agents and vendors about each fault but a rate limit and a
// key, in order of precedence.
var faultWords = []struct {
	fault Fault
	words lazyregexp.Pattern
}{
	{Unavailable, words(`temporary network issue`, `empty or malformed response`)},
	{Unpaid, words(`credit balance is too low`, `insufficient[_ ](?:quota|credits?|funds|balance)`, `payment[_ ]required`,
		`billing_(?:error|hard_limit_reached|not_active)`, numbered(`402`))},
	{PromptTooLong, words(`prompt is too long`, `context_length_exceeded`, `maximum context length`, `request_too_large`, `request too large`,
		`exceeds the (?:model's )?(?:maximum )?context (?:window|length)`, `input token count \S+ exceeds`, numbered(`413`))},
	{UnknownModel, words(`issue with the selected model`, `model_not_found`, `not_found_error\W.*\bmodel\b`,
		`(?:unknown|unsupported|invalid) model\b`, `model\W(?:\S+ )?(?:was not found|not found|does not exist|is not supported)`, `models?/\S+ is not found`)},
}

// laterWords are those that a message about a key or a rate limit takes precedence of.
var laterWords = []struct {
	fault Fault
	words lazyregexp.Pattern
}{
	{UnknownHost, words(`\benotfound\b`, `no such host`, `could not resolve (?:host|proxy)`, `name or service not known`, `nodename nor servname`)},
	{UnknownEndpoint, words(numbered(`404`))},
	{Unavailable, words(numbered(`(?:408|409|425|5[0-9][0-9])`), `\b50[0234] (?:internal server error|bad gateway|service (?:temporarily )?unavailable|gateway time-?out)`,
		errnoWords, `connection (?:was )?(?:refused|reset|closed|aborted|error|timed out)`, `closed (?:the )?connection`, `other side closed`, `premature close`,
		`: eof$`, `unexpected eof(?:$| (?:reading|from) )`, `(?:read|handshake|i/o) time(?:d )?-?out`, `no route to host`, `network is unreachable`, `temporary failure in name resolution`, `api error:? (?:connection|network|fetch|socket|terminated|unable to connect|can't reach|overloaded|internal server error)`,
		`request (?:was )?timed out`, `unable to connect to (?:the )?(?:api|server|anthropic|model)`, `fetch failed`, `socket hang up`,
		`stream disconnected`, `error sending request`, `(?:internal_server|server|api|service_unavailable)_error\b`,
		`\b(?:serviceunavailable|internalserver)error\b`, `\boverloaded\b`, `"(?:unavailable|internal|deadline_exceeded)"`)},
}

// numbered matches an HTTP status in an error.
func numbered(status string) string {
	return `(?:status|error|code|http|http/[0-9.]+)\W{0,6}` + status + `\b`
}

func words(all ...string) lazyregexp.Pattern {
	return lazyregexp.New(`(?i)` + strings.Join(all, "|"))
}

// FaultIn detects a fault of the model in an error, or in the final output of a failed agent.
func FaultIn(text string, now time.Time) Message {
	for _, kind := range faultWords {
		if said := lineWith(text, kind.words); said != "" {
			return Message{kind.fault, event.RateLimit{Text: said}}
		}
	}
	if said, found := KeyRefusedIn(text); found {
		return Message{KeyRefused, event.RateLimit{Text: said}}
	}
	if limit, found := RateLimitIn(text, now); found {
		return Message{RateLimited, limit}
	}
	for _, kind := range laterWords {
		if said := lineWith(text, kind.words); said != "" {
			return Message{kind.fault, event.RateLimit{Text: said}}
		}
	}
	return Message{}
}

// reported matches a line by which an agent reports that the model could not be used.
var reported = words(`^\W{0,2}(?:error:? )?api error\b`)

// APIErrorIn returns such a line. It is certain: a test of the project may print others.
func APIErrorIn(text string) string { return lineWith(text, reported) }

func lineWith(text string, pattern lazyregexp.Pattern) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); pattern().MatchString(line) {
			return termsafe.Strip(line)
		}
	}
	return ""
}
