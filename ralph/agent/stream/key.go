package stream

import (
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Words by which agents and their vendors say that a key is missing or refused.
var keyWords = lazyregexp.New(`(?i)` + strings.Join([]string{
	`not logged in`, `please run /login`, `not authenticated`, `failed to authenticate`, `authentication[ _](?:error|failed|required)`,
	`no authentication information`, `set an auth method`, `invalid auth method`, `unauthenticated\b`,
	`(?:invalid|incorrect|missing|no|expired) (?:\w+ )?(?:x-)?api[ -]?key`, `api[ _-]?key (?:is )?(?:not valid|not set|invalid|missing|expired|required)`,
	`api_key_(?:invalid|missing)`, `\b401 unauthorized\b`, `(?:status|error|code|http)\W{0,6}40[13]\b`,
}, "|"))

// KeyRefusedIn looks in the words of an agent that failed before its model said
// anything for one line about its key.
func KeyRefusedIn(text string) (said string, found bool) {
	for line := range strings.Lines(text) {
		if keyWords().MatchString(line) {
			return strings.TrimSpace(termsafe.Strip(line)), true
		}
	}
	return "", false
}
