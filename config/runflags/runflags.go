// Package runflags describes plan, build, run and shell for both sides: the plugin makes
// Docker's commands of them, and ralph in the sandbox its parser and help.
package runflags

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"
)

// Names of the commands.
const (
	Plan  = "plan"
	Build = "build"
	Run   = "run"
	Shell = "shell"
)

// Command is a command that ralph runs in the sandbox.
type Command struct {
	Name, Args         string
	Short, Long        string
	Notes              string // below the options
	Examples, ExitCode string
	Flags              []Flag
}

// Of returns the command of that name.
func Of(name string) Command {
	switch name {
	case Plan:
		return plan()
	case Build:
		return build()
	case Run:
		return run()
	default:
		return shell()
	}
}

func plan() Command {
	return Command{
		Name: Plan, Args: "[options]", Short: "Create tasks from the specs",
		Long: `Run the agent to compare ./specs with the code and add what is missing to the
backlog. No code is changed.`,
		Notes: `With --dry-run, the agent plans on a copy of the backlog. The tasks that it
would add, change, close and reopen are listed, and the copy is removed.
"docker ralph --dry-run plan" starts no agent: it prints the sandbox, image and
key that a plan would use.`,
		Examples: `  ralph plan
  ralph plan --dry-run
  ralph plan -n 3 -m sonnet`,
		ExitCode: "The exit codes are those of ralph build.",
		Flags: slices.Insert(loopFlags(Flag{Usage: "Run the agent N times", Default: "1"}, "off"), 1,
			Flag{Name: DryRun, Usage: "Show the plan without changing the backlog"}),
	}
}

func build() Command {
	return Command{
		Name: Build, Args: "[options]", Short: "Work through the backlog, one fresh agent per task",
		Long: `Run the agent in a loop, a fresh process each time. Each run claims one task
from the backlog, implements it, commits it and marks it done. The loop ends
when no task is open or active.`,
		Notes: `0 disables a limit. Set defaults in [loop] of ralph.toml. With [checks] there,
a task is done only when its checks pass.

Ctrl+C asks the agent to stop and waits for its cleanup; a second Ctrl+C kills
it. Its task goes back to the backlog. "docker ralph stop" ends the loop after
the current run. "docker ralph logs" shows the output.`,
		Examples: `  ralph build
  ralph build -n 3 -m sonnet
  ralph build --max-duration 8h --max-cost-usd 20`,
		ExitCode: `Exit codes:
    0  every task that was worked on is done, and no open task is left or -n
       runs are over; or the loop was stopped
    1  wrong arguments, or another error
    3  --max-duration reached
    4  --max-cost-usd reached
    5  --max-tokens reached
    6  --max-failures reached, or the last of -n runs failed
    7  --stall reached
    8  the last run was silent for longer than --idle
    9  --max-wait reached
   10  a task that was worked on is not done, or only blocked and waiting tasks
       are left
   11  git no longer works in the worktree
   12  only tasks that wait for your answer are left
   13  a check fails regardless of the tasks
   14  the loop succeeded, but your branch does not have all of its commits
  124  the last run exceeded timeout_minutes
  130  interrupted`,
		Flags: loopFlags(Flag{Usage: "Run the agent at most N times", Default: "unlimited"}, strconv.Itoa(config.DefaultStall)+", off with -n"),
	}
}

func run() Command {
	return Command{
		Name: Run, Args: "[options]", Short: "Start the agent's interface or ask it a question",
		Long: `Start the agent's interface in the current directory.

With -p or with standard input that is not a terminal, ask the agent a question
and print its answer. With both, standard input is appended to the prompt.

The interface of the shell agent is a shell, and its prompts are commands.`,
		Examples: `  ralph run
  ralph run -m sonnet -p "What does this repository do?"
  git diff | ralph run -p "Review this change"`,
		ExitCode: `The exit code is that of the agent; or 1 on wrong arguments or a failed agent,
124 when timeout_minutes is reached, 130 when interrupted.`,
		Flags: []Flag{modelFlag(), {Name: Prompt, Short: "p", Arg: "PROMPT", Usage: "Print the answer to this prompt"}, dangerFlag(), helpFlag()},
	}
}

func shell() Command {
	return Command{
		Name: Shell, Args: "[options] [-- COMMAND [ARG...]]", Short: "Open a shell in the sandbox",
		Long: `Open a shell (bash or sh), or run a command, in the current directory with the
environment of the agent. No agent is started.`,
		Examples: `  ralph shell
  ralph shell -- env
  echo 'git status' | ralph shell`,
		ExitCode: `The exit code is that of the shell or the command; or 126 if it cannot be run,
127 if it was not found.`,
		Flags: []Flag{helpFlag()},
	}
}

// loopFlags are the flags of plan and build.
func loopFlags(iterations Flag, stall string) []Flag {
	iterations.Name, iterations.Short, iterations.Arg, iterations.requires = MaxIterations, "n", "N", "a number"
	limits := config.DefaultLoop()
	return []Flag{
		iterations,
		modelFlag(),
		dangerFlag(),
		{Name: "max-duration", Arg: "TIME", Usage: "End the loop after this time (e.g., 90m, 4h)", Key: "max_duration"},
		{Name: "max-cost-usd", Arg: "USD", Usage: "End the loop at this cost", Key: "max_cost_usd"},
		{Name: "max-tokens", Arg: "N", Usage: "End the loop at this number of tokens", Key: "max_tokens"},
		{Name: "max-failures", Arg: "N", Usage: "End the loop after N failed runs in a row", Key: "max_failures", Default: strconv.Itoa(limits.MaxFailures)},
		{Name: "stall", Arg: "N", Usage: "End the loop after N runs in a row without a commit or a finished task", Key: "stall", Default: stall},
		{Name: "idle", Arg: "MINUTES", Usage: "End a run when the agent prints nothing for this long", Key: "idle", Default: fmt.Sprint(limits.Idle.Minutes())},
		{Name: "max-wait", Arg: "TIME", Usage: "Maximum time to wait for a rate limit or an outage", Key: "max_wait", Default: fmt.Sprintf("%gh", limits.MaxWait.Hours())},
		{Name: Resume, Usage: "Continue the last loop of this branch, with its cost and duration"},
		{
			Name: Format, Arg: "FORMAT", Usage: `Format of the output: "text", or "json" for a report at the end`,
			Default: "text", Values: []string{"text", JSON}, requires: "text or json",
		},
		helpFlag(),
	}
}

func modelFlag() Flag {
	return Flag{Name: Model, Short: "m", Arg: "ALIAS", Usage: "Model to use: an alias (e.g., sonnet, haiku) or a model ID", requires: "an alias (e.g. opus-4.5, sonnet, haiku)"}
}

func dangerFlag() Flag { return Flag{Name: Danger, Usage: "Skip the agent's permission prompts"} }

func helpFlag() Flag { return Flag{Name: Help, Short: "h", Usage: "Print usage"} }

// Help returns the help of "ralph NAME".
func (c Command) Help() string {
	long := c.Long
	if slices.ContainsFunc(c.Flags, func(f Flag) bool { return f.Name == Model }) {
		long += "\n\nThe aliases of models are in models.json."
	}
	parts := []string{"Usage: ralph " + c.Name + " " + c.Args, long, "Options:\n" + strings.TrimSuffix(options(c.Flags), "\n"), c.Notes, "Examples:\n" + c.Examples, c.ExitCode}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return strings.Join(parts, "\n\n") + "\n"
}

// helpWidth is the width of a help text.
const helpWidth = 80

func options(flags []Flag) string {
	names := make([]string, len(flags))
	width := 0
	for i, f := range flags {
		names[i] = strings.TrimRight(fmt.Sprintf("  -%s, --%s %s", f.Short, f.Name, f.Arg), " ")
		if f.Short == "" {
			names[i] = strings.TrimRight(fmt.Sprintf("      --%s %s", f.Name, f.Arg), " ")
		}
		width = max(width, len(names[i]))
	}
	var b strings.Builder
	for i, f := range flags {
		line := fmt.Sprintf("%-*s ", width, names[i])
		usage := f.Usage
		if f.Default != "" {
			usage += " (default: " + f.Default + ")"
		}
		for word := range strings.FieldsSeq(usage) {
			if len(line)+1+len(word) > helpWidth {
				b.WriteString(line + "\n")
				line = strings.Repeat(" ", width+1)
			}
			line += " " + word
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
