// Package task implements "ralph task", the command line of the backlog. Users,
// loops, session hooks and agents depend on its output and exit codes.
package task

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/backlog"
	"github.com/docker-ralph/docker-ralph/wire/help"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailure     = 1 // bad arguments, wrong state, no repository, database error
	exitNothing     = 2 // not found, or no eligible task
	exitInterrupted = 130
)

// IO are the streams and the environment of a command.
type IO struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	// Hints says that "docker ralph" was called, and can be advised.
	Hints bool
	// Store is the backlog; nil to open that of the current directory. It is not closed.
	Store *backlog.Store
	// Access is who runs the command.
	Access Access
	// Agent is the agent that runs it, with AccessAgent, and Command that of its session.
	Agent, Command string
	// Loop says that the agent is that of a loop: what it reports as done is finished.
	Loop bool
	// Specs are the files below specs/, and Attempts the refs of what runs have left, by task. Without a Store, they
	// are read from the worktree.
	Specs    []string
	Attempts map[string][]string
	// Former are backlogs whose tasks can be adopted; nil for those in the same database.
	Former Former
}

// session is a running command.
type session struct {
	IO
	out   *bufio.Writer  // results; flushed at the end
	full  bool           // the writer takes no more
	store *backlog.Store // nil for commands without a database
}

type command struct {
	run  func(context.Context, *session, []string) error
	bare bool // without database and scope
}

func commands() map[string]command {
	return map[string]command{
		"plan-sync":   {run: planSync},
		"plan-status": {run: planStatus},
		"peek":        {run: peek},
		"claim":       {run: claim},
		"renew":       {run: renew},
		"done":        {run: done},
		"fail":        {run: fail},
		"ask":         {run: ask},
		"questions":   {run: questions},
		"answer":      {run: answer},
		"list":        {run: list},
		"show":        {run: show},
		"create":      {run: create},
		"update":      {run: update},
		"delete":      {run: remove},
		"reopen":      {run: reopen},
		"deps":        {run: deps},
		"block":       {run: block},
		"unblock":     {run: unblock},
		"agent":       {run: agent},
		"adopt":       {run: adopt},
		"import":      {run: importTasks},
		"export":      {run: exportTasks},
		"_get-scope":  {run: getScope, bare: true},
		"_render-md":  {run: renderObject, bare: true},
		"plan-export": {run: planExport, bare: true},
	}
}

const outputBuffer = 64 << 10

// Run runs "ralph task" with the given arguments in the current directory and
// returns the exit code.
func Run(ctx context.Context, args []string, streams IO) int {
	if len(args) == 0 || args[0] == "" {
		_, _ = fmt.Fprintf(streams.Stderr, "Error: missing command\n\n%s", help.Text("task"))
		return exitFailure
	}
	s := &session{IO: streams, out: bufio.NewWriterSize(streams.Stdout, outputBuffer)}
	err := s.dispatch(ctx, args[0], args[1:])
	if flushErr := s.out.Flush(); flushErr != nil && err == nil {
		err = fmt.Errorf("writing the result: %w", flushErr)
	}
	return s.report(err)
}

func (s *session) dispatch(ctx context.Context, name string, args []string) error {
	if name == "--help" || name == "-h" {
		s.print(help.Text("task"))
		return nil
	}
	cmd, known := commands()[name]
	if !known {
		return unknownCommand(name)
	}
	if err := s.authorize(name, args); err != nil {
		return err
	}
	if cmd.bare {
		return cmd.run(ctx, s, args)
	}
	if s.Store != nil {
		s.store = s.Store
		if s.Access == AccessAgent {
			s.store = s.store.As(s.Agent).Limited()
		}
		return cmd.run(ctx, s, args)
	}
	// The repository is checked before the arguments.
	store, err := backlog.OpenHere(ctx, s.Getenv)
	if err != nil {
		return err
	}
	s.store = store
	return errors.Join(cmd.run(ctx, s, args), s.store.Close())
}

// report prints an error and returns its exit code.
func (s *session) report(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, backlog.ErrNoneEligible):
		s.complain("No eligible tasks")
		return exitNothing
	case errors.Is(err, backlog.ErrNotEligible):
		s.complain("Task not eligible")
		return exitNothing
	case errors.Is(err, context.Canceled):
		s.complain("Error: interrupted")
		return exitInterrupted
	}
	s.complain("Error: " + err.Error())
	for _, text := range hint.Of(err) {
		s.complain("Hint: " + text)
	}
	if errors.Is(err, backlog.ErrNotFound) {
		return exitNothing
	}
	return exitFailure
}

// print and printf write results without control sequences: tasks are written by
// agents. The writer stores the first error, and Run reports it.
func (s *session) print(text string) {
	if !s.full {
		_, err := s.out.WriteString(termsafe.Strip(text))
		s.full = err != nil
	}
}

func (s *session) printf(format string, args ...any) {
	if !s.full { // what an agent has stored can print without end
		s.print(fmt.Sprintf(format, args...))
	}
}

func (s *session) complain(line string) { _, _ = fmt.Fprintln(s.Stderr, termsafe.Strip(line)) }

func unknownCommand(name string) error {
	err := fmt.Errorf("unknown command '%s'", name)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(commands())), func(n string) bool { return n[0] == '_' || n == "plan-export" })
	if near := hint.Nearest(name, names); near != "" {
		err = hint.Wrap(err, "did you mean %q?", near)
	}
	return err
}

func planExport(context.Context, *session, []string) error {
	//nolint:revive,staticcheck // the full stop is part of the interface
	return errors.New("unknown command 'plan-export'. Use 'ralph task list --all' instead.")
}

func getScope(ctx context.Context, s *session, _ []string) error {
	scope, err := s.scope(ctx)
	if err != nil {
		return err
	}
	s.printf("repo:%s\nbranch:%s\n", scope.Repo, scope.Branch)
	return nil
}

func (s *session) scope(ctx context.Context) (backlog.Scope, error) {
	if s.Store != nil {
		return s.Store.Scope(), nil
	}
	return backlog.DetectScope(ctx, s.Getenv)
}
