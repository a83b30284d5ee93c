package plugin

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/docker/cli/cli/command/formatter"
	"github.com/docker/go-units"

	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	safe "github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// sandboxContext is a sandbox for a template: its methods are the placeholders.
// Labels and logs are untrusted, so every value is sanitized.
type sandboxContext struct {
	formatter.HeaderContext
	status manage.SandboxStatus
	now    time.Time
}

// MarshalJSON is for "{{json .}}".
func (c *sandboxContext) MarshalJSON() ([]byte, error) { return formatter.MarshalJSON(c) }

// Name returns the sandbox's name.
func (c *sandboxContext) Name() string { return safe.Line(c.status.Name) }

// Scope returns the repository and the branch that it is for.
func (c *sandboxContext) Scope() string { return c.Repo() + ":" + c.Branch() }

// Repo returns the repository that it is for.
func (c *sandboxContext) Repo() string { return safe.Line(c.status.Repo) }

// Branch returns the branch that it is for.
func (c *sandboxContext) Branch() string { return safe.Line(c.status.Branch) }

// Driver returns its driver.
func (c *sandboxContext) Driver() string { return c.status.Driver }

// Agent returns its agent.
func (c *sandboxContext) Agent() string { return safe.Line(c.status.Agent) }

// State returns its state.
func (c *sandboxContext) State() string { return c.status.State }

// Worktree returns its worktree.
func (c *sandboxContext) Worktree() string {
	path := safe.Line(c.status.Worktree)
	if c.status.Gone {
		path += " (gone)"
	}
	return path
}

// Image returns its image.
func (c *sandboxContext) Image() string { return safe.Line(c.status.Image) }

// Size returns its disk usage.
func (c *sandboxContext) Size() string {
	if c.status.Size == nil {
		return "unknown"
	}
	return units.HumanSizeWithPrecision(float64(*c.status.Size), 3)
}

// Current reports whether it is that of this work tree and branch.
func (c *sandboxContext) Current() bool { return c.status.Current }

// Loop returns what runs in it, or how the last loop ended.
func (c *sandboxContext) Loop() string {
	l := c.status.Loop
	if l == nil {
		return ""
	}
	words := []string{l.Command}
	if l.Running {
		if l.Iteration > 0 {
			words = append(words, fmt.Sprintf("#%d", l.Iteration))
		}
		if task := c.Task(); task != "" {
			words = append(words, task)
		}
		text := strings.Join(append(words, c.age(l.Since, "for ")...), " ")
		if l.Others > 0 {
			text += fmt.Sprintf(", and %d more", l.Others)
		}
		return text
	}
	how := strings.ReplaceAll(l.Stop, "_", " ")
	if l.Killed {
		how = "killed"
	}
	if l.ExitCode != nil && *l.ExitCode != 0 {
		how += fmt.Sprintf(" (%d)", *l.ExitCode)
	}
	words = append(words, how)
	if ago := c.age(l.Ended, ""); ago != nil {
		words = append(words, ago...)
		words = append(words, "ago")
	}
	return strings.Join(words, " ")
}

func (c *sandboxContext) age(t *time.Time, before string) []string {
	if t == nil {
		return nil
	}
	return []string{before + strings.ToLower(units.HumanDuration(max(0, c.now.Sub(*t))))}
}

// Iteration returns the number of the loop's run; empty if it is unknown.
func (c *sandboxContext) Iteration() string {
	if c.status.Loop == nil || c.status.Loop.Iteration == 0 {
		return ""
	}
	return strconv.Itoa(c.status.Loop.Iteration)
}

// Task returns the tasks that the agent has claimed.
func (c *sandboxContext) Task() string {
	if c.status.Loop == nil {
		return ""
	}
	return strings.Join(c.status.Loop.Tasks, ",")
}

// Since returns when the loop began.
func (c *sandboxContext) Since() string {
	if c.status.Loop == nil || c.status.Loop.Since == nil {
		return ""
	}
	return c.status.Loop.Since.Format(time.RFC3339)
}

// ExitCode returns how the loop has ended; empty while it runs.
func (c *sandboxContext) ExitCode() string {
	if c.status.Loop == nil || c.status.Loop.ExitCode == nil {
		return ""
	}
	return strconv.Itoa(*c.status.Loop.ExitCode)
}
