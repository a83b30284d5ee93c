package stream

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // agents name time zones, and images may have none

	"github.com/docker-ralph/docker-ralph/ralph/agent/event"
)

// Words by which agents and their vendors say that a limit was reached. They
// are only looked for in errors and in the last words of failed runs: in the
// middle of a run an agent may well write about rate limits.
var limitWords = regexp.MustCompile(`(?i)rate[ _-]?limit|usage[ _]limit|hit your (?:\w+ )?limit|limit reached|` +
	`too many requests|\b429\b|resource[ _]?exhausted|exhausted your (?:\w+ )?quota|exceeded your (?:\w+ )?quota|` +
	`quota (?:exceeded|will reset)|overloaded|\b529\b`)

// Ways to say when it is over.
var (
	limitEpoch    = regexp.MustCompile(`\|\s*([0-9]{10})\b|"?resets_?[aA]t"?\s*[:=]\s*"?([0-9]{10})\b`)
	limitDuration = regexp.MustCompile(`(?i)(?:in|after|retry[ -]after|retryDelay"?)[:=\s"]+((?:[0-9]+(?:\.[0-9]+)?\s*(?:days?|d|hours?|hrs?|h|minutes?|mins?|m|milliseconds?|ms|seconds?|secs?|s)\b,?\s*(?:and\s+)?|[0-9]+(?:\.[0-9]+)?[dhms])+)`)
	durationPart  = regexp.MustCompile(`(?i)([0-9]+(?:\.[0-9]+)?)\s*(milliseconds?|ms|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)`)
	limitClock    = regexp.MustCompile(`(?i)(?:at|resets?|resets at|until)\s+(?:(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\s+([0-9]{1,2})(?:st|nd|rd|th)?,?\s*(?:([0-9]{4})\s*)?(?:at\s+)?,?\s*)?([0-9]{1,2})(?::([0-9]{2}))?\s*(am|pm)?(?:\s*\(([A-Za-z_]+(?:/[A-Za-z_+-]+)*)\))?`)
)

// maxLimit bounds how far away the end of a limit is believed to be.
const maxLimit = 31 * 24 * time.Hour

// RateLimitIn looks for a rate limit in an error, or in the last words of an
// agent that failed, and for the time when it is over.
func RateLimitIn(text string, now time.Time) (event.RateLimit, bool) {
	var said string
	for line := range strings.Lines(text) {
		if limitWords.MatchString(line) {
			said = strings.TrimSpace(event.Strip(line))
		}
	}
	if said == "" {
		return event.RateLimit{}, false
	}
	limit := event.RateLimit{Text: said}
	for _, find := range []func(string, time.Time) time.Time{epochIn, durationIn, clockIn} {
		for _, where := range []string{said, text} {
			at := find(where, now)
			if !at.IsZero() && at.After(now) && at.Before(now.Add(maxLimit)) {
				limit.Until = at
				return limit, true
			}
		}
	}
	return limit, true
}

func epochIn(text string, _ time.Time) time.Time {
	found := limitEpoch.FindStringSubmatch(text)
	if found == nil {
		return time.Time{}
	}
	seconds, _ := strconv.ParseInt(found[1]+found[2], 10, 64) // ten digits fit
	return time.Unix(seconds, 0)
}

func durationIn(text string, now time.Time) time.Time {
	found := limitDuration.FindStringSubmatch(text)
	if found == nil {
		return time.Time{}
	}
	var sum time.Duration
	for _, part := range durationPart.FindAllStringSubmatch(found[1], 8) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil || n > 1e6 {
			return time.Time{}
		}
		sum += time.Duration(n * float64(unit(part[2])))
	}
	if sum <= 0 {
		return time.Time{}
	}
	return now.Add(sum)
}

func unit(word string) time.Duration {
	word = strings.ToLower(word)
	switch {
	case strings.HasPrefix(word, "ms"), strings.HasPrefix(word, "milli"):
		return time.Millisecond
	case word[0] == 'd':
		return 24 * time.Hour
	case word[0] == 'h':
		return time.Hour
	case word[0] == 'm':
		return time.Minute
	default:
		return time.Second
	}
}

// clockIn reads "3pm (Europe/Berlin)", "10:26 PM" and "Apr 28th, 2026 10:03
// PM". A time of the day that has passed is tomorrow's.
func clockIn(text string, now time.Time) time.Time {
	found := limitClock.FindStringSubmatch(text)
	if found == nil || found[5] == "" && found[6] == "" {
		return time.Time{} // a lone number is no time
	}
	zone := now.Location()
	if found[7] != "" {
		named, err := time.LoadLocation(found[7])
		if err != nil {
			return time.Time{}
		}
		zone = named
	}
	hour, _ := strconv.Atoi(found[4])
	minute, _ := strconv.Atoi(found[5])
	switch strings.ToLower(found[6]) {
	case "am":
		hour %= 12
	case "pm":
		hour = hour%12 + 12
	}
	if hour > 23 || minute > 59 {
		return time.Time{}
	}
	local := now.In(zone)
	if found[1] == "" {
		at := time.Date(local.Year(), local.Month(), local.Day(), hour, minute, 0, 0, zone)
		if !at.After(now) {
			at = at.AddDate(0, 0, 1)
		}
		return at
	}
	month, err := time.Parse("Jan", strings.ToUpper(found[1][:1])+strings.ToLower(found[1][1:]))
	if err != nil {
		return time.Time{}
	}
	day, _ := strconv.Atoi(found[2])
	year, _ := strconv.Atoi(found[3])
	if year == 0 {
		year = local.Year()
	}
	at := time.Date(year, month.Month(), day, hour, minute, 0, 0, zone)
	if found[3] == "" && !at.After(now) {
		at = at.AddDate(1, 0, 0)
	}
	return at
}

// limitEvents returns the rate limit that an error speaks of, if it does.
func limitEvents(text string) []event.Event {
	if limit, found := RateLimitIn(text, time.Now()); found {
		return []event.Event{limit}
	}
	return nil
}
