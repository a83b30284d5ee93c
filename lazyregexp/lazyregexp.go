// Package lazyregexp has regular expressions that are compiled when they are first
// used. The plugin is started twice for every command, and most commands need few
// of them.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Pattern returns the compiled expression. It panics on first use if the expression
// is wrong.
type Pattern func() *regexp.Regexp

// New is for the expressions of a package, which its tests use.
func New(expression string) Pattern {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
