package plugin

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func TestSinceOfLogs(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "90m": now.Add(-90 * time.Minute), "2026-03-04": now.Add(-12 * time.Hour),
		"2026-03-04T11:30:00": now.Add(-30 * time.Minute), "2026-03-04T11:30:00Z": now.Add(-30 * time.Minute),
	} {
		got, err := parseSince(text, now)
		assert.NilError(t, err)
		assert.Check(t, got.Equal(want), "%s: %s", text, got)
	}
	_, err := parseSince("yesterday", now)
	assert.ErrorContains(t, err, `invalid --since "yesterday"`)
}

func TestTailOfLogs(t *testing.T) {
	for _, all := range []string{"all", "-1"} {
		n, err := parseTail(all)
		assert.Check(t, err == nil && n == nil)
	}
	n, err := parseTail("5")
	assert.Check(t, err == nil && *n == 5)
	_, err = parseTail("x")
	assert.ErrorContains(t, err, `invalid --tail "x"`)
}
