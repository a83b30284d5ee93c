package loop

import (
	"github.com/docker-ralph/docker-ralph/wire"
)

// Stop is the reason why a loop ended, in machine-readable form.
type Stop string

// The reasons to stop.
const (
	Failed       Stop = "failed"
	LimitReached Stop = "max_iterations" // the requested number of runs
	Complete     Stop = "complete"       // no task is open or active
	Stopped      Stop = "stopped"        // on request, after the current run
	Interrupted  Stop = "interrupted"    // by a signal
	RunFailed    Stop = "run_failed"     // the last run failed
	TimedOut     Stop = "timeout"        // likewise, because it took longer than its time limit
	MaxDuration  Stop = "max_duration"
	MaxCost      Stop = "max_cost_usd"
	MaxTokens    Stop = "max_tokens"
	MaxFailures  Stop = "max_failures"
	Stalled      Stop = "stall"
	Idle         Stop = "idle" // likewise, because it was silent
	RateLimited  Stop = "rate_limit"
	Unavailable  Stop = "unavailable" // the model, for longer than max_wait
	NoGit        Stop = "git"         // an agent made git unusable in the worktree
	Questions    Stop = "question"    // only tasks that wait for an answer are left
	BrokenCheck  Stop = "check"       // a check fails regardless of the tasks
	Unfinished   Stop = "unfinished"  // tasks that were worked on are not done, or only blocked and waiting ones are left
)

// noStop continues the loop.
const noStop Stop = ""

// runFailed is the reason to stop after a last run that failed.
func runFailed(how end) Stop {
	switch how {
	case endTimedOut:
		return TimedOut
	case endIdle:
		return Idle
	}
	return RunFailed
}

// ExitCode returns the exit code for the reason. 124 is that of timeout(1), 130 that of
// a shell after Ctrl+C.
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
	case RateLimited, Unavailable:
		return 9
	case Unfinished:
		return 10
	case Questions:
		return wire.ExitQuestion
	case BrokenCheck:
		return wire.ExitCheck
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
