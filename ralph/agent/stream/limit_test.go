package stream

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/ralph/agent/event"
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
		assert.Equal(t, event.Strip(limit.Text), limit.Text)
	})
}
