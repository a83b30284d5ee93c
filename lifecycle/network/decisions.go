package network

import (
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Since returns the requests in after that are not in before.
func Since(before, after []lifecycle.Request) []lifecycle.Request {
	type key struct {
		host    string
		port    uint16
		refused bool
		via     string
	}
	keyOf := func(r lifecycle.Request) key { return key{r.Host, r.Port, r.Refused, r.Via} }
	counted := map[key]int{}
	for _, r := range before {
		counted[keyOf(r)] += r.Count
	}
	var more []lifecycle.Request
	for _, r := range after {
		was := counted[keyOf(r)]
		if was > r.Count {
			was = 0 // the program has restarted
		}
		if r.Count -= was; r.Count > 0 {
			more = append(more, r)
		}
	}
	return more
}

// Hint returns the rule that would allow a request, if any.
func Hint(mode egress.Mode, r lifecycle.Request) string {
	return egress.Policy{Mode: mode}.Decide(r.Host, r.Port).Hint
}
