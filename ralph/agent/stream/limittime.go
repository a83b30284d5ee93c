package stream

import (
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // images may have no time zones

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// Formats of the end of a limit.
const (
	limitAmount = `[0-9]+(?:\.[0-9]+)?\s*(?:days?|d|hours?|hrs?|h|minutes?|mins?|m|milliseconds?|ms|seconds?|secs?|s)\b,?\s*(?:and\s+)?`
	limitMonth  = `(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\s+([0-9]{1,2})(?:st|nd|rd|th)?,?\s*(?:([0-9]{4}),?\s*)?(?:at\s+)?`
	limitZone   = `(?:\s*\(([a-z_]+(?:/[a-z0-9_+-]+)*)\)|\s+(utc|gmt)\b)`
)

var (
	limitEpoch    = lazyregexp.New(`(?i)\|\s*([0-9]{10})\b|resets?_?at[\\"]*\s*[:=]\s*[\\"]*([0-9]{10})(?:[0-9]{3})?\b`)
	limitSeconds  = lazyregexp.New(`(?i)(?:resets?_in_seconds|retry[ -]after)[\\"]*\s*[:=]?\s*[\\"]*([0-9]{1,7})\b`)
	limitDuration = lazyregexp.New(`(?i)(?:(?:again|resets?|retry|available)\b[^.\n]{0,30}?\b(?:in|after)|wait|retry-after|retryDelay)[\\:=\s"]+(?:about\s+|~\s*)?` +
		`((?:` + limitAmount + `|[0-9]+(?:\.[0-9]+)?[dhms])+)`)
	limitPart  = lazyregexp.New(`(?i)([0-9]+(?:\.[0-9]+)?)\s*(milliseconds?|ms|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)`)
	limitStamp = lazyregexp.New(`\b[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?(?:Z|[+-][0-2][0-9]:[0-5][0-9])`)
	limitClock = lazyregexp.New(`(?i)(?:\bresets?|\bagain|\buntil)(?:\s+(?:at|on))?\s+(?:` + limitMonth + `)?` +
		`([0-9]{1,2})(?::([0-9]{2}))?\s*(am|pm)?` + limitZone + `?`)
)

func epochIn(text string, _ time.Time) time.Time {
	found := limitEpoch().FindStringSubmatch(text)
	if found == nil {
		return time.Time{}
	}
	seconds, _ := strconv.ParseFloat(found[1]+found[2], 64) // ten digits fit
	return epoch(seconds)
}

// epoch converts seconds since 1970, if plausible.
func epoch(seconds float64) time.Time {
	if seconds < 1 || seconds > 1e11 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// secondsIn parses headers and fields without a unit.
func secondsIn(text string, now time.Time) time.Time {
	found := limitSeconds().FindStringSubmatchIndex(text)
	if found == nil || strings.ContainsAny(text[found[3]:min(found[3]+2, len(text))], ".dhmsDHMS") {
		return time.Time{} // it has a unit
	}
	seconds, _ := strconv.Atoi(text[found[2]:found[3]]) // seven digits fit
	return now.Add(time.Duration(seconds) * time.Second)
}

func stampIn(text string, now time.Time) time.Time {
	for _, found := range limitStamp().FindAllString(text, 8) {
		if at, err := time.Parse(time.RFC3339, found); err == nil && at.After(now) {
			return at
		}
	}
	return time.Time{}
}

// durationIn returns the longest duration in text.
func durationIn(text string, now time.Time) time.Time {
	var longest time.Duration
	for _, found := range limitDuration().FindAllStringSubmatch(text, 8) {
		longest = max(longest, duration(found[1]))
	}
	if longest <= 0 {
		return time.Time{}
	}
	return now.Add(longest)
}

// duration parses e.g. "2 days 3h5s".
func duration(text string) (sum time.Duration) {
	for _, part := range limitPart().FindAllStringSubmatch(text, 8) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil || n > 1e6 {
			return 0
		}
		sum += time.Duration(n * float64(unit(part[2])))
	}
	return sum
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

// clockIn parses "3pm (Europe/Berlin)", "10:26 PM" and "Apr 28th, 2026 10:03 PM". A past
// time of day means tomorrow.
func clockIn(text string, now time.Time) time.Time {
	found := limitClock().FindStringSubmatch(text)
	if found == nil || found[5] == "" && found[6] == "" {
		return time.Time{} // just a number
	}
	zone := now.Location()
	if name := zoneName(found[7], found[8]); name != "" {
		named, err := time.LoadLocation(name)
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
	return dateOf(found, hour, minute, now.In(zone))
}

// dateOf returns the date for a time of day. A past date without a year means next year.
func dateOf(found []string, hour, minute int, now time.Time) time.Time {
	if found[1] == "" {
		at := time.Date(now.Year(), now.Month(), now.Day(), hour, minute, 0, 0, now.Location())
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
		year = now.Year()
	}
	at := time.Date(year, month.Month(), day, hour, minute, 0, 0, now.Location())
	if found[3] == "" && !at.After(now) {
		at = at.AddDate(1, 0, 0)
	}
	return at
}

// zoneName returns the time zone of a match.
func zoneName(bracketed, bare string) string {
	if bare != "" {
		return strings.ToUpper(bare)
	}
	return bracketed
}
