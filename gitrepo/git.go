package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/budget"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// killGrace bounds the wait for the output of a git process after its end: a child may hold
// the pipes.
const killGrace = time.Second

// Git is the git program in one directory, and the only way in which docker-ralph runs git on
// the host. An agent may have written the repository: see [Git.command] for what is switched off.
type Git struct {
	Program string // looked up in PATH if it is a name
	Dir     string
	Environ []string
	// Known is the configuration if it has been read; nil if not.
	Known Config
	// Config are further settings, each NAME=VALUE.
	Config []string
	// Prepare changes a process before it starts; nil changes nothing.
	Prepare func(*exec.Cmd)

	limit int // of the output, in bytes; 0 for maxOutput
}

// NewGit finds the git program. It inherits the caller's configuration.
func NewGit(dir string) (Git, error) {
	program, err := exec.LookPath("git")
	if errors.Is(err, exec.ErrNotFound) {
		return Git{}, hint.Wrap(errors.New("git was not found in PATH"), "install it: https://git-scm.com/downloads")
	}
	if err != nil {
		return Git{}, fmt.Errorf("searching for git: %w", err)
	}
	return Git{Program: program, Dir: dir, Environ: Environ(os.Environ())}, nil
}

// Budgets in bytes: an agent may have made the repository.
const (
	maxOutput   = 256 << 20 // of git's output
	maxMessages = 1 << 20   // of git's messages, which quote it
	maxPointer  = 64 << 10  // of a file with a path, such as .git of a linked worktree
)

// Run returns git's output. If a busy machine has not read it in time after git's end, git is
// run once more.
func (g Git) Run(ctx context.Context, args ...string) (string, error) {
	run := func() (*budget.Buffer, error) {
		out := g.Buffer(args...)
		err := g.Stream(ctx, nil, out, args...)
		return out, cmp.Or(out.Err(), err)
	}
	out, err := run()
	if errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		out, err = run()
	}
	return out.String(), err
}

// Buffer returns a buffer for the output of a command, with a budget.
func (g Git) Buffer(args ...string) *budget.Buffer {
	return budget.New(cmp.Or(g.limit, maxOutput), "the output of git "+args[subcommand(args)])
}

// Stream runs git once, with its input and output. An exit code is a [*GitError].
func (g Git) Stream(ctx context.Context, stdin io.Reader, stdout io.Writer, args ...string) error {
	cmd, err := g.command(ctx, args)
	if err != nil {
		return err
	}
	cmd.WaitDelay = killGrace
	ownGroup(cmd)
	if g.Prepare != nil {
		g.Prepare(cmd)
	}
	stderr := budget.NewHead(maxMessages)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	err = cmd.Run()
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return &GitError{Command: args[subcommand(args)], Stderr: stderr.String(), Exit: exit}
	}
	if _, statErr := os.Stat(g.Dir); errors.Is(err, fs.ErrNotExist) && errors.Is(statErr, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", g.Dir, fs.ErrNotExist) // err names the program
	}
	return err
}

// MaxMemory is what git may use for objects of an agent.
const MaxMemory = 4 << 30

// WithMemoryLimit bounds the memory of git processes to [MaxMemory].
func (g Git) WithMemoryLimit() Git {
	prepare := g.Prepare
	g.Prepare = func(cmd *exec.Cmd) {
		if prepare != nil {
			prepare(cmd)
		}
		limitMemory(cmd)
	}
	return g
}

// GitError is a git process that has failed.
type GitError struct {
	Command, Stderr string
	Exit            *exec.ExitError
}

// Error returns git's message.
func (e *GitError) Error() string {
	words := strings.TrimPrefix(termsafe.Line(e.Stderr), "fatal: ")
	if words == "" {
		words = e.Exit.Error()
	}
	return "git " + e.Command + ": " + words
}

func (e *GitError) Unwrap() error { return e.Exit }

// Is reports a full disk as [syscall.ENOSPC].
func (e *GitError) Is(target error) bool { return target == syscall.ENOSPC && SaysFull(e.Stderr) }

// SaysFull detects a full disk in git's messages.
func SaysFull(stderr string) bool {
	return strings.Contains(stderr, "No space left on device") || strings.Contains(stderr, "Out of diskspace")
}

// SaysNo reports whether err is exit code 1, which is an answer of git and no failure.
func SaysNo(err error) bool {
	e, ok := errors.AsType[*GitError](err)
	return ok && e.Exit.ExitCode() == 1
}

// says searches git's messages, which are English because of LC_ALL=C.
func says(err error, words string) bool {
	e, ok := errors.AsType[*GitError](err)
	return ok && strings.Contains(strings.ToLower(e.Stderr), words)
}

// Environ removes variables that point git at another repository or make it prompt, trace,
// write, transfer or translate. The user's configuration (GIT_CONFIG_GLOBAL, GIT_CONFIG_COUNT, …) and
// GIT_CEILING_DIRECTORIES stay.
func Environ(environ []string) []string {
	drop := map[string]bool{
		"GIT_DIR": true, "GIT_WORK_TREE": true, "GIT_IMPLICIT_WORK_TREE": true,
		"GIT_COMMON_DIR": true, "GIT_INDEX_FILE": true, "GIT_PREFIX": true,
		"GIT_OBJECT_DIRECTORY": true, "GIT_ALTERNATE_OBJECT_DIRECTORIES": true,
		"GIT_NAMESPACE": true, "GIT_CONFIG": true, "GIT_GRAFT_FILE": true,
		"GIT_SHALLOW_FILE": true, "GIT_REPLACE_REF_BASE": true,
		"GIT_TERMINAL_PROMPT": true, "GIT_OPTIONAL_LOCKS": true, "GIT_ALLOW_PROTOCOL": true,
		"LC_ALL": true, "LANGUAGE": true,
	}
	kept := make([]string, 0, len(environ)+3)
	for _, entry := range environ {
		name, _, _ := strings.Cut(strings.ToUpper(entry), "=")
		if !drop[name] && !strings.HasPrefix(name, "GIT_TRACE") {
			kept = append(kept, entry)
		}
	}
	return append(kept, "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
}
