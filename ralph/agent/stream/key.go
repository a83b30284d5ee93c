package stream

import (
	"strings"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Messages of agents and vendors about a missing or rejected key.
var keyWords = lazyregexp.New(`(?i)` + strings.Join([]string{
	`not logged in`, `please run /login`, `not authenticated`, `failed to authenticate`, `authentication[ _](?:error|failed|required)`,
	`no authentication information`, `set an auth method`, `invalid auth method`, `unauthenticated\b`,
	`(?:invalid|incorrect|missing|no|expired) (?:\w+ )?(?:x-)?api[ -]?key`, `api[ _-]?key (?:is )?(?:not valid|not set|invalid|missing|expired|required)`,
	`api_key_(?:invalid|missing)`, `\b401 unauthorized\b`,
	`(?:organi[sz]ation|account)[ _](?:\w+ ){0,3}(?:disabled|deactivated|suspended)\b`, `disabled organi[sz]ation\b`, `\b(?:login expired|login reached its time limit|token revoked)\b`,
	`apikeyhelper script is failing`, `invalid (?:request header|anthropic_custom_headers)\b`, `(?:status|error|code|http)\W{0,6}40[13]\b`,
}, "|"))

// KeyRefusedIn returns a line about the key in the error output of an agent that failed
// before the model responded.
func KeyRefusedIn(text string) (said string, found bool) {
	for line := range strings.Lines(text) {
		if keyWords().MatchString(line) {
			return strings.TrimSpace(termsafe.Strip(line)), true
		}
	}
	return "", false
}
