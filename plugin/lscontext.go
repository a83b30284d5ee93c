package plugin

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	safe "github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// sandboxRow is a sandbox for a template. Labels and logs are untrusted, so every value is
// sanitized.
type sandboxRow struct {
	noHeader
	Name, Scope, Repo, Branch, Driver, Engine, Agent, State, Worktree, Image, Size string

	Current bool // of this worktree and branch
	Loop    string
	// Iteration, Task, Since and ExitCode are of the loop; empty if unknown.
	Iteration, Task, Title, Since, ExitCode string

	Activity string
	// TasksLeft, Tokens, Cost and LastOutput are of the loop; empty if unknown.
	TasksLeft, Tokens, Cost, LastOutput string
	// Questions, Blocked and Unfetched are empty for none.
	Questions, Blocked, Unfetched string
	// OtherClient is the client that created it; empty for this one.
	OtherClient string
}

func newSandboxRow(s manage.SandboxStatus, now time.Time) *sandboxRow {
	r := &sandboxRow{
		Name: safe.Line(s.Name), Repo: safe.Line(s.Repo), Branch: safe.Line(s.Branch), Driver: s.Driver, Engine: safe.Line(s.Engine), Agent: safe.Line(s.Agent),
		State: s.State, Worktree: safe.Line(s.Worktree), Image: safe.Line(s.Image), Size: "unknown", Current: s.Current,
	}
	r.Scope = r.Repo + ":" + r.Branch
	if s.Gone {
		r.Worktree += " (gone)"
	}
	if s.Size != nil {
		r.Size = units.HumanSizeWithPrecision(float64(*s.Size), 3)
	}
	if l := s.Loop; l != nil {
		r.Task, r.ExitCode = strings.Join(l.Tasks, ","), count(l.ExitCode, "")
		if l.Iteration > 0 {
			r.Iteration = strconv.Itoa(l.Iteration)
		}
		if l.Since != nil {
			r.Since = l.Since.Format(time.RFC3339)
		}
		r.Title, r.TasksLeft, r.Tokens, r.Cost = l.Title, leftText(l), tokensText(l), costText(l)
		if l.LastOutput != nil {
			r.LastOutput = l.LastOutput.Format(time.RFC3339)
		}
		r.Loop = loopText(l, now)
	}
	if r.OtherClient = safe.Line(s.OtherClient); r.OtherClient != "" {
		r.Loop = otherClientText(s)
	}
	r.Activity, r.Blocked = string(s.Activity), blockedText(s.Blocked)
	if n := len(s.Questions); n > 0 {
		r.Questions = strconv.Itoa(n)
	}
	if s.Unfetched != nil && *s.Unfetched > 0 {
		r.Unfetched = strconv.Itoa(*s.Unfetched)
	}
	return r
}

// otherClientText says that another client has created a sandbox.
func otherClientText(s manage.SandboxStatus) string {
	return "of another client, " + safe.Line(s.OtherClient)
}

// loopText describes a running loop, or how it ended.
func loopText(l *manage.LoopStatus, now time.Time) string {
	age := func(t *time.Time, format string) string {
		if t == nil {
			return ""
		}
		return fmt.Sprintf(format, strings.ToLower(units.HumanDuration(max(0, now.Sub(*t)))))
	}
	text := l.Command
	if l.Running {
		if l.Iteration > 0 {
			text += fmt.Sprintf(" #%d", l.Iteration)
		}
		if len(l.Tasks) > 0 {
			text += " " + strings.Join(l.Tasks, ",")
		}
		text += age(l.Since, " for %s")
		if state := stateText(l); state != "" {
			text += ", " + state
		}
		if l.Orphaned {
			text += ", without its command"
		}
		if l.Others > 0 {
			text += fmt.Sprintf(", and %d more", l.Others)
		}
		return text
	}
	how := strings.ReplaceAll(l.Stop, "_", " ")
	if l.Killed {
		how = "killed"
	}
	text += " " + how
	if code := l.ExitCode; code != nil && *code != 0 {
		text += fmt.Sprintf(" (%d)", *code)
	}
	return text + age(l.Ended, " %s ago")
}
