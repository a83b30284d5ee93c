package stream

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

var (
	berlin  = time.FixedZone("", 3600)
	present = time.Date(2026, 11, 21, 4, 30, 0, 0, time.UTC)
)

var limitCases = []struct {
	name, text string
	found      bool
	until      time.Time
}{
	{"claude by epoch", "Claude AI usage limit reached|1795240000", true, time.Unix(1795240000, 0)},
	{"claude by clock and zone", "You've hit your limit · resets 3pm (Europe/Berlin)", true, time.Date(2026, 11, 21, 15, 0, 0, 0, berlin)},
	{"claude, past", "5-hour limit reached ∙ resets 3am (UTC)", true, time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)},
	{"claude, weekly", "You've hit your weekly limit · resets Nov 24, 9am (UTC)", true, time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)},
	{"api error", `API Error: 429 {"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`, true, time.Time{}},
	{"overloaded", `API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, true, time.Time{}},
	{"codex by clock", "You’ve hit your usage limit. Visit https://x.example/ to purchase more credits or try again at 10:26 PM.", true, time.Date(2026, 11, 21, 22, 26, 0, 0, time.UTC)},
	{"codex by date", "You've hit your usage limit. Try again at Nov 28th, 2026 10:03 PM.", true, time.Date(2026, 11, 28, 22, 3, 0, 0, time.UTC)},
	{"codex by duration", "You've hit your usage limit. Upgrade or try again in 3 days 2 hours 5 minutes.", true, present.Add(74*time.Hour + 5*time.Minute)},
	{"openai", "Rate limit reached for m in organization o on tokens per min. Limit 1, Used 1. Please try again in 7m12s.", true, present.Add(7*time.Minute + 12*time.Second)},
	{"openai, milliseconds", "Rate limit reached. Please try again in 850ms.", true, present.Add(850 * time.Millisecond)},
	{"codex retries", "exceeded retry limit, last status: 429 Too Many Requests, request id: 9c84-SJC", true, time.Time{}},
	{"gemini", "Your quota will reset after 3h20m5s.", true, present.Add(3*time.Hour + 20*time.Minute + 5*time.Second)},
	{"gemini daily", "[API Error: You have exhausted your daily quota on this model.]\nPlease wait", true, time.Time{}},
	{"gemini details", "RESOURCE_EXHAUSTED\n\"retryDelay\": \"34.5s\"", true, present.Add(34500 * time.Millisecond)},
	{"header", "429 Too Many Requests\nretry-after: 90s", true, present.Add(90 * time.Second)},
	{"years away", "Rate limit reached. Try again in 400 days", true, time.Time{}},
	{"claude, session", "You've hit your session limit · resets 4:20am (Europe/Warsaw)", true, time.Date(2026, 11, 22, 4, 20, 0, 0, berlin)},
	{"claude, until", "You’ve hit your limit for Claude messages. Limits will reset at 9:30 AM.", true, time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)},
	{"claude, spend", "You've hit your org's monthly spend limit · resets Dec 1 at 12am (UTC)", true, time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)},
	{"claude, rate", "API Error: Request rejected (429) · This request would exceed your account's rate limit. Please try again later.", true, time.Time{}},
	{"bedrock", "API Error: ThrottlingException: Too many tokens, please wait before trying again.", true, time.Time{}},
	{"codex, body", `{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_at":1795240000,"resets_in_seconds":9000}`, true, time.Unix(1795240000, 0)},
	{"codex, seconds", `{"type":"usage_limit_reached","resets_in_seconds":9000}`, true, present.Add(9000 * time.Second)},
	{"codex in Portuguese", "You've hit your usage limit. Upgrade your plan to continue, or try again at 10 de jul. de 2026, 11:52.", true, time.Time{}},
	{"copilot", "Sorry, you've hit a rate limit that restricts the number of Copilot model requests you can make within a specific time period. Please try again in 51 hours. Please review our Terms of Service", true, present.Add(51 * time.Hour)},
	{"copilot, short", "Sorry, you have been rate-limited. Please wait 2 minutes before trying again or consider switching to Auto.", true, present.Add(2 * time.Minute)},
	{"copilot, weekly", "You've reached your weekly rate limit. Please wait for your limit to reset on November 23, 2026 at 2:00 AM or switch to auto model to continue.", true, time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)},
	{"copilot, after retries", "retried 5 times (total retry wait time: 58.81 seconds) Last error: 429 Rate limit reached for m. Please try again in 20s.", true, present.Add(20 * time.Second)},
	{"opencode", "Usage limit reached. It will reset in 2 days 3 hours. To continue using this model now, enable usage", true, present.Add(51 * time.Hour)},
	{"gemini, capacity", "Attempt 1 failed: You have exhausted your capacity on this model. Your quota will reset after 5s.. Retrying after 6173ms...", true, present.Add(5 * time.Second)},
	{"gemini, both", "[API Error: You exceeded your current quota. Please retry in 34.07s.\nSuggested retry after 634s.]", true, present.Add(634 * time.Second)},
	{"gemini, escaped", `[API Error: {"error":{"message":"{\\n \\"code\\": 429,\\n \\"message\\": \\"Resource has been exhausted (e.g. check quota).\\", \\"retryDelay\\": \\"31s\\"`, true, present.Add(31 * time.Second)},
	{"bare header", "HTTP 429\nRetry-After: 120\n", true, present.Add(2 * time.Minute)},
	{"stamp", "status 429: limit resets at 2026-11-21T06:00:00Z, it is 2026-11-21T04:00:00Z", true, time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)},
	{"another duration before", "ok, tests passed in 34s\nYou've hit your limit · resets 3pm (UTC)", true, time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC)},
	{"prose", "I fixed the rate limit of the client, and the test of line 429.", false, time.Time{}},
	{"code", "client.go:429: method is overloaded", false, time.Time{}},
	{"context", "Context limit reached · /compact or /clear to continue", false, time.Time{}},
	{"recursion", "RecursionError: hit the recursion limit, exceeded retry limit", false, time.Time{}},
	{"other error", "API Error: 500 Internal server error", false, time.Time{}},
	{"line number", "main.go:4290: undefined: x", false, time.Time{}},
	{"nothing", "", false, time.Time{}},
}

func TestRateLimitIn(t *testing.T) {
	for _, tc := range limitCases {
		t.Run(tc.name, func(t *testing.T) {
			limit, found := RateLimitIn(tc.text, present)
			assert.Equal(t, found, tc.found)
			assert.Assert(t, limit.Until.Equal(tc.until), "%s, not %s", limit.Until, tc.until)
		})
	}
}

func FuzzRateLimitIn(f *testing.F) {
	for _, tc := range limitCases {
		f.Add(tc.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		limit, found := RateLimitIn(text, present)
		assert.Assert(t, found || limit == event.RateLimit{})
		assert.Assert(t, limit.Until.IsZero() || limit.Until.After(present) && limit.Until.Before(present.Add(maxLimit)))
		assert.Equal(t, termsafe.Strip(limit.Text), limit.Text)
	})
}
