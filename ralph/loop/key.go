package loop

import "github.com/docker-ralph/docker-ralph/ralph/agent"

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
