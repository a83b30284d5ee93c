package stream

import (
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Messages of agents and vendors about rate limits. They are searched only in errors and
// in the final output of failed runs: any other output may be about rate limits.
var limitWords = lazyregexp.New(`(?i)` + strings.Join([]string{
	`rate[ _-]?limit[ _-]?(?:error|reached|exceeded|hit)`, `rate[ _-]limited`,
	`(?:hit|reached|exceed(?:s|ed)?) (?:\S+ ){0,4}(?:rate|usage|request|token|spend)[ -]limits?\b`,
	`usage[ _]limit(?: has been)?[ _](?:reached|exceeded)`,
	`hit your (?:\S+ ){0,4}limit\b`, `limit to reset\b`,
	`(?:hour|daily|weekly|monthly|session|opus|sonnet|spend|request|token) limit reached`, `limit reached.{1,5}resets`,
	`too many (?:requests|tokens)`, `throttlingexception`,
	`(?:status|error|code|http)\W{0,6}[45]29\b`, `\b429\W{1,3}(?:rate|resource)`, `\b529\W{1,3}overloaded`,
	`overloaded_error`, `(?:api|engine|model|provider|servers?|service) (?:is|are) (?:\w+ )?overloaded`,
	`is experiencing high load`, `temporarily limiting requests`,
	`resource[ _]?(?:has been )?exhausted`,
	`(?:exhausted|exceeded) your (?:\w+ ){0,2}(?:quota|capacity)`, `quota[ _](?:exceeded|will reset)`,
}, "|"))

// maxLimit bounds the duration of a limit; longer ones are ignored.
const maxLimit = 31 * 24 * time.Hour

// RateLimitIn detects a rate limit and its end in an error, or in the final output of a
// failed agent.
func RateLimitIn(text string, now time.Time) (event.RateLimit, bool) {
	said, rest := "", text
	for at := 0; at < len(text); {
		line, _, _ := strings.Cut(text[at:], "\n")
		if limitWords().MatchString(line) {
			said, rest = strings.TrimSpace(termsafe.Strip(line)), text[at:]
		}
		at += len(line) + 1
	}
	if said == "" {
		return event.RateLimit{}, false
	}
	// The time follows the message.
	for _, where := range []string{rest, text} {
		if at := limitEnd(where, now); !at.IsZero() {
			return event.RateLimit{Text: said, Until: at}, true
		}
	}
	return event.RateLimit{Text: said}, true
}

// limitEnd returns the end of a limit if text contains a plausible one.
func limitEnd(text string, now time.Time) time.Time {
	for _, find := range []func(string, time.Time) time.Time{epochIn, secondsIn, durationIn, stampIn, clockIn} {
		if at := find(text, now); at.After(now) && at.Before(now.Add(maxLimit)) {
			return at
		}
	}
	return time.Time{}
}

// limitEvents returns the rate limit in an error, if any.
func limitEvents(text string) []event.Event {
	if limit, found := RateLimitIn(text, time.Now()); found {
		return []event.Event{limit}
	}
	return nil
}

// certainLimit decodes an error that is known to be a rate limit. It lasts at least until
// until, which may be zero.
func certainLimit(text string, until time.Time) event.RateLimit {
	limit, found := RateLimitIn(text, time.Now())
	if !found {
		line, _, _ := strings.Cut(strings.TrimSpace(termsafe.Strip(text)), "\n")
		limit = event.RateLimit{Text: line, Until: limitEnd(text, time.Now())}
	}
	if until.After(limit.Until) {
		limit.Until = until
	}
	return limit
}

// withEnd is a decoder that adds events at the end of the stream.
type withEnd struct {
	event.Decoder
	end func() []event.Event
}

func (w withEnd) End() []event.Event { return append(w.Decoder.End(), w.end()...) }

// pendingLimit is the rate limit that an agent is waiting for. If no other event follows,
// it is why the run ended.
type pendingLimit struct{ waits []event.Event }

func (p *pendingLimit) end() []event.Event { return p.waits }
