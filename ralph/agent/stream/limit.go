package stream

import (
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Words by which agents and their vendors say that a limit was reached. They
// are only looked for in errors and in the last words of failed runs: in the
// middle of a run an agent may well write about rate limits.
var limitWords = lazyregexp.New(`(?i)` + strings.Join([]string{
	`rate[ _-]?limit[ _-]?(?:error|reached|exceeded|hit)`, `rate[ _-]limited`,
	`(?:hit|reached|exceed(?:s|ed)?) (?:\S+ ){0,4}(?:rate|usage|request|token|spend)[ -]limits?\b`,
	`usage[ _]limit(?: has been)?[ _](?:reached|exceeded)`,
	`hit your (?:\S+ ){0,4}limit\b`, `limit to reset\b`,
	`(?:hour|daily|weekly|monthly|session|opus|sonnet|spend|request|token) limit reached`, `limit reached.{1,5}resets`,
	`too many (?:requests|tokens)`, `throttlingexception`,
	`(?:status|error|code|http)\W{0,6}[45]29\b`, `\b429\W{1,3}(?:rate|resource)`, `\b529\W{1,3}overloaded`,
	`overloaded_error`, `(?:api|engine|model|provider|servers?|service) (?:is|are) (?:\w+ )?overloaded`,
	`resource[ _]?(?:has been )?exhausted`,
	`(?:exhausted|exceeded) your (?:\w+ ){0,2}(?:quota|capacity)`, `quota[ _](?:exceeded|will reset)`,
}, "|"))

// maxLimit bounds how far away the end of a limit is believed to be.
const maxLimit = 31 * 24 * time.Hour

// RateLimitIn looks for a rate limit in an error, or in the last words of an
// agent that failed, and for the time when it is over.
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
	// The words come first, and what follows them belongs to them.
	for _, where := range []string{rest, text} {
		if at := limitEnd(where, now); !at.IsZero() {
			return event.RateLimit{Text: said, Until: at}, true
		}
	}
	return event.RateLimit{Text: said}, true
}

// limitEnd finds when a limit is over, if text says so and can be believed.
func limitEnd(text string, now time.Time) time.Time {
	for _, find := range []func(string, time.Time) time.Time{epochIn, secondsIn, durationIn, stampIn, clockIn} {
		if at := find(text, now); at.After(now) && at.Before(now.Add(maxLimit)) {
			return at
		}
	}
	return time.Time{}
}

// limitEvents returns the rate limit that an error speaks of, if it does.
func limitEvents(text string) []event.Event {
	if limit, found := RateLimitIn(text, time.Now()); found {
		return []event.Event{limit}
	}
	return nil
}

// certainLimit is what an error says that is known to be a rate limit. It is
// not over before until, which may be zero.
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

// withEnd is a decoder that has something to say when the stream has ended.
type withEnd struct {
	event.Decoder
	end func() []event.Event
}

func (w withEnd) End() []event.Event { return append(w.Decoder.End(), w.end()...) }

// patience remembers the rate limit that an agent waits out by itself. When
// that is the last that is heard of it, it is why the run has ended.
type patience struct{ waits []event.Event }

func (p *patience) end() []event.Event { return p.waits }
