package plugin

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/ralph/task/taskfile"
)

// taskUsage is what can follow a command of "docker ralph task".
type taskUsage struct {
	words    []string // next
	task     bool     // a task is next
	file     bool     // a file is next
	only     []string // the statuses of that task; none for all that are not deleted
	flags    []string // have a value
	switches []string
	statuses []string // of --status
}

// taskCommands lists the commands in the order of ralph's help.
func taskCommands() []string {
	return []string{
		"plan-sync", "plan-status", "peek", "claim", "renew", "done", "fail", "ask", "list", "show", "create", "update",
		"reopen", "adopt", "questions", "answer", "delete", "import", "export", "deps", "block", "unblock", "agent", editWord, "--help",
	}
}

func taskUsageOf(command string) taskUsage {
	undone, active := []string{"open", "waiting", "active", "finished", "blocked", "question"}, []string{"active"}
	return map[string]taskUsage{
		"peek":      {flags: []string{"-n"}},
		"claim":     {task: true, only: []string{"open"}, flags: []string{"--lease", "--agent"}},
		"renew":     {task: true, only: active, flags: []string{"--lease", "--agent", "--attempt"}},
		"done":      {task: true, only: active, flags: []string{"--result", "--attempt"}},
		"fail":      {task: true, only: []string{"active", "finished"}, flags: []string{"--reason", "--attempt"}},
		"ask":       {task: true, only: active, flags: []string{"--option", "--default", "--default-after", "--agent", "--attempt"}},
		"questions": {flags: []string{"--format"}},
		"answer":    {task: true, only: []string{"question"}},
		"list": {
			flags: []string{"--status", "--assignee", "--format"}, switches: []string{"--all", "--markdown"},
			statuses: []string{"open", "waiting", "active", "finished", "question", "blocked", "done", "deleted"},
		},
		"show":   {task: true, flags: []string{"--format"}, switches: []string{"--with-deps"}},
		"create": {flags: []string{"--priority", "--category", "--description", "--steps", "--spec", "--ref", "--deps"}},
		"update": {task: true, only: undone, flags: []string{
			"--title", "--priority", "--category", "--description", "--steps", "--spec", "--ref", "--status",
		}},
		"reopen":  {task: true, only: []string{"finished", "done", "deleted", "blocked", "question"}, flags: []string{"--reason"}},
		"delete":  {task: true, flags: []string{"--status", "--spec", "--category"}, switches: []string{"--all", "--confirm"}, statuses: []string{"open", "active", "finished", "done"}},
		"deps":    {task: true},
		"block":   {task: true, only: undone, flags: []string{"--by", "--attempt"}},
		"unblock": {task: true, only: undone, flags: []string{"--by"}},
		editWord:  {task: true, only: undone},
		"import":  {file: true, flags: []string{"--from", "--prefix", "--format"}, switches: []string{"--dry-run"}},
		"export":  {flags: []string{"--format"}},
		"agent":   {words: []string{"register", "list", "deregister"}},
	}[command]
}

// longTaskFlags are the short flags of task commands that have long forms.
func longTaskFlags() map[string]string {
	return map[string]string{
		"-t": "--title", "-p": "--priority", "-c": "--category", "-d": "--description", "-s": "--steps", "-r": "--spec",
	}
}

// completeTask offers what can come next behind "task".
func (d dispatcher) completeTask(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	const noFiles = cobra.ShellCompDirectiveNoFileComp
	if len(args) == 0 {
		return taskCommands(), noFiles
	}
	usage, last := taskUsageOf(args[0]), args[len(args)-1]
	last = cmp.Or(longTaskFlags()[last], last)
	behind := len(args) > 1 && slices.Contains(usage.flags, last)
	switch {
	case behind && last == "--status":
		return usage.statuses, noFiles
	case behind && last == "--format":
		return []string{"table", "json"}, noFiles
	case behind && last == "--from":
		return taskfile.Formats(), noFiles
	case behind && last != "--by":
		return nil, noFiles
	case behind, usage.task && len(args) == 1 && !strings.HasPrefix(typed, "-"):
		return d.completeTaskIDs(cmd, usage.only, args[1:], typed), noFiles
	case usage.file && !strings.HasPrefix(typed, "-"):
		return nil, cobra.ShellCompDirectiveDefault
	case len(args) == 1 && len(usage.words) > 0:
		return usage.words, noFiles
	}
	return slices.DeleteFunc(slices.Concat(usage.flags, usage.switches), func(flag string) bool {
		return slices.Contains(args, flag)
	}), noFiles
}

// completeTaskIDs offers the tasks with these statuses that begin as typed and are
// not on the command line yet. It ignores errors and does not prompt.
func (d dispatcher) completeTaskIDs(cmd *cobra.Command, statuses, given []string, typed string) []string {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
	defer cancel()
	worktree, err := d.options.worktree.wanted()
	if err != nil {
		return nil
	}
	h, err := d.newHost(cmd, "task")
	if err != nil {
		return nil
	}
	h.Stderr, h.Confirm, h.Ask = io.Discard, nil, nil
	if approval.CheckNested(ctx, h) != nil {
		return nil
	}
	tasks, _ := manage.TaskNames(ctx, h, worktree, statuses)
	var offered []string
	for _, t := range tasks {
		if strings.HasPrefix(t.ID, typed) && plainWord(t.ID) && !slices.Contains(given, t.ID) {
			offered = append(offered, cobra.CompletionWithDesc(t.ID, plainText(t.Title)))
		}
	}
	return offered
}
