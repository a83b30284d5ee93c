package loop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
)

// recogniseKey finds a missing or refused key in a run that failed before the
// model said anything. A run that did its work had a key.
func (l *loop) recogniseKey(it *iteration) {
	switch tokens := it.usage.Tokens; {
	case it.end == endKeyRefused:
		return
	case it.end != endItself || !it.failed() || tokens != nil && tokens.Total() > 0:
		it.noKey = ""
		return
	}
	if it.noKey != "" || l.KeyIn == nil || len(agent.Keys(l.Agent.Name())) == 0 {
		return
	}
	it.noKey, _ = l.KeyIn(it.words())
}

// keyError says which variables hold the agent's key.
func (l *loop) keyError(said string) error {
	name, keys := l.Agent.Name(), agent.Keys(l.Agent.Name())
	err := fmt.Errorf("%s: the model's endpoint refused the key: %s", name, cut(said))
	set := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return l.Session.Getenv == nil || l.Session.Getenv(key) == "" })
	switch {
	case len(set) > 0:
		return hint.Wrap(err, "check the value of %s", strings.Join(set, " and "))
	case len(keys) > 0:
		return hint.Wrap(fmt.Errorf("%s has no key: %s", name, cut(said)), "set %s", strings.Join(keys, " or "))
	}
	return err
}
