package loop

import (
	"fmt"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/wire/event"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// Totals are the sums of a loop, including the loop that it resumes.
type Totals struct {
	Runs int `json:"runs"`
	Done int `json:"done"`
	// Released counts tasks that were open again although neither their run nor a check
	// had failed, see Failed. Left counts those not done at the end; nil if unknown.
	Released int  `json:"released"`
	Left     *int `json:"left,omitempty"`
	Commits  int  `json:"commits"`
	// Planned is what runs of plan have changed in the backlog.
	Planned *runlog.Planned `json:"planned,omitempty"`
	Time    time.Duration   `json:"-"`
	Seconds float64         `json:"seconds"`
	// Nothing is known of TokensUnknown and CostUnknown runs.
	Tokens        int64   `json:"tokens"`
	TokensUnknown int     `json:"tokens_unknown_runs"`
	CostUSD       float64 `json:"cost_usd"`
	CostUnknown   int     `json:"cost_unknown_runs"`
	CostEstimated bool    `json:"cost_estimated,omitempty"` // at least in part
	// Failed counts tasks that were open again because their run or a check had failed.
	Failed int `json:"failed,omitempty"`
}

func totalsOf(earlier []runlog.Iteration) Totals {
	var t Totals
	for _, it := range earlier {
		t.add(it)
	}
	return t
}

// add adds a run. Its figures may come from a file that an agent can write, so
// negative ones are ignored.
func (t *Totals) add(it runlog.Iteration) {
	t.Runs++
	switch it.Outcome {
	case outcomeDone:
		t.Done += len(it.Tasks)
	case outcomeOvertaken: // the other agent's run counts
	default:
		t.Done += min(len(it.Done), len(it.Tasks))
		if again := max(0, len(it.Tasks)-len(it.Done)-len(it.Asked)); failedOutcome(it.Outcome) {
			t.Failed += again
		} else {
			t.Released += again
		}
	}
	if p := it.Planned; p != nil && !p.DryRun { // see sumPlan
		if t.Planned == nil {
			t.Planned = &runlog.Planned{}
		}
		t.Planned.Added += max(0, p.Added)
		t.Planned.Changed += max(0, p.Changed)
		t.Planned.Closed += max(0, p.Closed)
		t.Planned.Reopened += max(0, p.Reopened)
	}
	t.Commits += max(0, it.Commits)
	t.Seconds += max(0, it.Seconds)
	t.Time = time.Duration(t.Seconds * float64(time.Second))
	if it.Tokens == nil {
		t.TokensUnknown++
	} else {
		t.Tokens += max(0, it.Tokens.Total())
	}
	if it.CostUSD == nil {
		t.CostUnknown++
	} else {
		t.CostUSD += max(0, *it.CostUSD)
		t.CostEstimated = t.CostEstimated || it.CostEstimated
	}
}

// failedOutcome reports whether an outcome is the failure of a run or a check. The tasks of
// other runs that are open again have been released.
func failedOutcome(outcome string) bool {
	return slices.Contains([]string{outcomeFailed, outcomeUnchecked, outcomeRefused, outcomeTimedOut, outcomeIdle}, outcome)
}

// stallBound returns the maximum number of runs without progress. It does not apply to
// a loop with a fixed number of runs.
func (l *loop) stallBound() int {
	switch {
	case l.Bounds.Stall != nil:
		return *l.Bounds.Stall
	case l.MaxIterations > 0 || l.Backlog == nil: // no task can be finished without a backlog
		return 0
	default:
		return config.DefaultStall
	}
}

// bound returns the bound, or full disk, that prevents another run.
func (l *loop) bound() (Stop, error) {
	if disk := l.fullDisk(); disk != nil {
		return Failed, hint.Wrap(fmt.Errorf("starting the next run: %s", disk.reason), "%s", disk.remedy)
	}
	b := l.Bounds
	switch n := l.stallBound(); {
	case b.MaxFailures > 0 && l.failures >= b.MaxFailures:
		return MaxFailures, fmt.Errorf("agent %s failed %d times in a row without progress: %s", l.Agent.Name(), l.failures, l.lastFailure)
	case b.MaxFailures > 0 && l.blocked >= b.MaxFailures:
		return MaxFailures, hint.Wrap(fmt.Errorf("%d tasks in a row were blocked after repeated failures", l.blocked), "list them with %q", l.taskCommand("list"))
	case n > 0 && l.stalled >= n:
		return Stalled, hint.Wrap(fmt.Errorf("no progress: %d runs in a row without a commit or a finished task (stall)", l.stalled),
			"see the log and %q, and make tasks smaller or clearer", l.taskCommand("list"))
	case b.MaxDuration > 0 && l.timeLeft() <= 0:
		return MaxDuration, l.overTime()
	case l.overCost(nil):
		return MaxCost, l.overCostError()
	case l.costUnknown:
		return Failed, hint.Wrap(fmt.Errorf("the cost of agent %s is unknown: max_cost_usd cannot be enforced", l.Agent.Name()),
			"with this agent, limit the loop with -n or max_duration instead")
	case l.overTokens(nil):
		return MaxTokens, fmt.Errorf("token limit reached: %s of %s (max_tokens)", stream.Grouped(l.spentTokens()), stream.Grouped(b.MaxTokens))
	}
	return noStop, nil
}

// timeLeft returns the remaining time under MaxDuration.
func (l *loop) timeLeft() time.Duration {
	return l.Bounds.MaxDuration - totalsOf(l.Earlier).Time - time.Since(l.started)
}

func (l *loop) overTime() error {
	return fmt.Errorf("time limit of %s reached (max_duration)", l.Bounds.MaxDuration)
}

// overCost and overTokens report whether a limit is reached, including the current run.
func (l *loop) overCost(run *float64) bool {
	sum := l.spentUSD()
	if run != nil {
		sum += *run
	}
	return l.Bounds.MaxCostUSD > 0 && sum >= l.Bounds.MaxCostUSD
}

func (l *loop) overTokens(run *event.Tokens) bool {
	sum := l.spentTokens()
	if run != nil {
		sum += run.Total()
	}
	return l.Bounds.MaxTokens > 0 && sum >= l.Bounds.MaxTokens
}
