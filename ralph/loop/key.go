package loop

import "github.com/docker-ralph/docker-ralph/ralph/agent"

// detectKeyError detects a missing or rejected key in a run that failed before the
// model responded.
func (l *loop) detectKeyError(it *iteration) {
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
	it.noKey, _ = l.KeyIn(it.errorText())
}
