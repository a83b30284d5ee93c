package config

import (
	"regexp"
	"sync"
)

// late is a pattern that is compiled when it is needed: ralph starts many times
// in a loop, and most of its commands need none of them.
func late(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
