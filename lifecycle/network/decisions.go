package network

import (
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Since returns the requests that came after others were counted.
func Since(before, after []lifecycle.Request) []lifecycle.Request {
	type place struct {
		host    string
		port    uint16
		refused bool
		via     string
	}
	of := func(r lifecycle.Request) place { return place{r.Host, r.Port, r.Refused, r.Via} }
	counted := map[place]int{}
	for _, r := range before {
		counted[of(r)] += r.Count
	}
	var more []lifecycle.Request
	for _, r := range after {
		was := counted[of(r)]
		if was > r.Count {
			was = 0 // the program has begun to count anew
		}
		if r.Count -= was; r.Count > 0 {
			more = append(more, r)
		}
	}
	return more
}

// Hint is the rule that would allow a request, if one would.
func Hint(mode egress.Mode, r lifecycle.Request) string {
	return egress.Policy{Mode: mode}.Decide(r.Host, r.Port).Hint
}
