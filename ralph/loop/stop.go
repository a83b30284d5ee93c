package loop

import (
	"github.com/docker-ralph/docker-ralph/wire"
)

// Stop is why a loop ended. Its text is a word for programs.
type Stop string

// The reasons to stop. With Failed there is an error that says more.
const (
	Failed       Stop = "failed"
	LimitReached Stop = "max_iterations" // the runs that were asked for are made
	Complete     Stop = "complete"       // no task is open or active
	Stopped      Stop = "stopped"        // somebody asked for it; the run under way was finished
	Interrupted  Stop = "interrupted"    // a signal came
	TimedOut     Stop = "timeout"        // a run took longer than its time limit
	MaxDuration  Stop = "max_duration"
	MaxCost      Stop = "max_cost_usd"
	MaxTokens    Stop = "max_tokens"
	MaxFailures  Stop = "max_failures"
	Stalled      Stop = "stall"
	Idle         Stop = "idle"
	RateLimited  Stop = "rate_limit"
	RunFailed    Stop = "run_failed" // the last run that was asked for failed
	NoGit        Stop = "git"        // an agent has broken git in the worktree
	Unfinished   Stop = "unfinished" // tasks that were worked on are not done, or only blocked ones are left
)

// goOn is no reason to stop.
const goOn Stop = ""

// ExitCode is the exit code of a program whose loop ended so. 124 and 130 are
// those of timeout(1) and of a shell after Ctrl+C.
func (s Stop) ExitCode() int {
	switch s {
	case LimitReached, Complete, Stopped:
		return 0
	case MaxDuration:
		return 3
	case MaxCost:
		return 4
	case MaxTokens:
		return 5
	case MaxFailures, RunFailed:
		return 6
	case Stalled:
		return 7
	case Idle:
		return 8
	case RateLimited:
		return 9
	case Unfinished:
		return 10
	case NoGit:
		return wire.ExitNoGit
	case TimedOut:
		return 124
	case Interrupted:
		return 130
	default:
		return 1
	}
}
