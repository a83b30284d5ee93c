package cli

import (
	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/guest"
)

// threadReserve covers all that a loop does concurrently.
const threadReserve = 24

// prepareSandbox kills leftover agents of a killed ralph, and reserves threads in case an
// agent exhausts the process limit.
func (j *job) prepareSandbox() {
	if j.session.Sandboxed {
		agent.KillLeftovers()
		guest.ReserveThreads(threadReserve)
	}
}
