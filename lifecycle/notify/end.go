package notify

import (
	"slices"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// stops are the words for how a loop ended by its exit code. The code is the host's; the log, which
// has the word, is an agent's.
var stops = map[int][]string{
	0:   {"complete", "max_iterations", "stopped"},
	1:   {"failed"},
	3:   {"max_duration"},
	4:   {"max_cost_usd"},
	5:   {"max_tokens"},
	6:   {"max_failures", "run_failed"},
	7:   {"stall"},
	8:   {"idle"},
	9:   {"rate_limit", "unavailable"},
	10:  {"unfinished"},
	11:  {"git"},
	12:  {"question"},
	124: {"timeout"},
	130: {"interrupted"},
}

// stopOf returns the word of a log if it fits the exit code, and "" otherwise.
func stopOf(code int, word string) string {
	if slices.Contains(stops[code], word) {
		return word
	}
	return ""
}

// totals matches the summary of a loop: fixed words and numbers.
var totals = lazyregexp.New(`^Total:( (\||[~$]{0,2}[0-9][0-9.,hms]*|(runs?|tasks?|done|failed|released|left|added|changed|closed|reopened|no|commits?|tokens|cost|at|least|unknown)[,:]?))*$`)

// summaryOf returns the summary of a log if it has the form of one, and "" otherwise.
func summaryOf(text string) string {
	if !totals().MatchString(text) {
		return ""
	}
	return text
}
