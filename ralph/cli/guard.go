package cli

import (
	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/guest"
)

// threadReserve is enough for all that a loop does at the same time, when an agent
// has used up the process limit.
const threadReserve = 24

// guardSandbox ends what agents of a killed ralph have left in a sandbox, and makes
// this one withstand an agent that uses up the process limit.
func (j *job) guardSandbox() {
	if j.session.Sandboxed {
		agent.EndLeftovers()
		guest.ReserveThreads(threadReserve)
	}
}
