package backlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	scopes "github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
)

var (
	errNoRepository = errors.New("not inside a git repository. Run: git init")
	errNoOrigin     = errors.New(`no git remote "origin" found. Run: git remote add origin <url>`)
	errDetached     = errors.New("detached HEAD state. Run: git checkout <branch>")
)

// git runs the git program of PATH in the current directory. Tests and tools
// replace that program by one that knows only the exact arguments used in
// this file.
func git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	switch {
	case err == nil:
		return strings.TrimRight(string(out), "\r\n"), nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound):
		return "", hint.Wrap(errors.New("git is not installed or not on PATH"), "install git")
	case strings.Contains(stderr.String(), "dubious ownership"):
		return "", hint.Wrap(errors.New("detected dubious ownership: the repository belongs to another user"),
			"run %q", "git config --global --add safe.directory DIRECTORY")
	}
	return "", &gitFailure{args: args, stderr: stderr.String()}
}

// gitFailure is an answer of git: what was asked for does not exist.
type gitFailure struct {
	args   []string
	stderr string
}

func (f *gitFailure) Error() string {
	return fmt.Sprintf("git %s: %s", strings.Join(f.args, " "), strings.TrimSpace(f.stderr))
}

// orSay replaces git's own complaint, or its empty answer, by err; other
// faults stay.
func orSay(failure, err error) error {
	var f *gitFailure
	if failure == nil || errors.As(failure, &f) {
		return err
	}
	return failure
}

// ask starts git and returns a function that waits for its answer.
func ask(ctx context.Context, args ...string) func() (string, error) {
	return begin(func() (string, error) { return git(ctx, args...) })
}

// begin starts f and returns a function that waits for its result.
func begin[T any](f func() (T, error)) (wait func() (T, error)) {
	var result T
	var err error
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		result, err = f()
	}()
	return func() (T, error) {
		<-finished
		return result, err
	}
}

// Locate returns the absolute path of the task database of the work tree that
// holds the current directory. The file need not exist.
func Locate(ctx context.Context) (string, error) {
	top, err := git(ctx, "rev-parse", "--show-toplevel")
	if err != nil || top == "" {
		return "", orSay(err, errNoRepository)
	}
	path, err := filepath.Abs(filepath.Join(filepath.FromSlash(top), ".ralph", "tasks.db"))
	if err != nil {
		return "", fmt.Errorf("finding the task database: %w", err)
	}
	return path, nil
}

// DetectScope returns the scope of the current directory: RALPH_SCOPE_REPO
// and RALPH_SCOPE_BRANCH where they are set, else what git says. With both set
// git is not asked.
func DetectScope(ctx context.Context, getenv func(string) string) (Scope, error) {
	if scope, set := scopeFromEnv(getenv); set {
		return scope, nil
	}
	inside := ask(ctx, "rev-parse", "--is-inside-work-tree")
	scope, err := scopeFromGit(ctx, getenv)
	// Outside of a work tree git may know a remote and a branch, too.
	if outside := checkInside(inside()); outside != nil {
		return Scope{}, outside
	}
	return scope, err
}

func scopeFromEnv(getenv func(string) string) (scope Scope, set bool) {
	scope = Scope{Repo: getenv("RALPH_SCOPE_REPO"), Branch: getenv("RALPH_SCOPE_BRANCH")}
	return scope, scope.Repo != "" && scope.Branch != ""
}

func checkInside(answer string, err error) error {
	if err != nil || answer == "false" { // "false": a bare repository, or inside .git
		return orSay(err, errNoRepository)
	}
	return nil
}

// scopeFromGit asks for both parts at once, even if one is not needed: starting
// git costs more than its answers. They are looked at in order, so the error
// is the same as one by one.
func scopeFromGit(ctx context.Context, getenv func(string) string) (Scope, error) {
	scope, set := scopeFromEnv(getenv)
	if set {
		return scope, nil
	}
	remote, current := ask(ctx, "remote", "get-url", "origin"), ask(ctx, "branch", "--show-current")
	url, err := remote()
	if scope.Repo == "" {
		if err != nil {
			return Scope{}, orSay(err, errNoOrigin)
		}
		if scope.Repo, err = scopes.Slug(url); err != nil {
			return Scope{}, hint.Wrap(fmt.Errorf("git remote \"origin\": %w", err), "run %q", "git remote set-url origin URL")
		}
	}
	branch, err := current()
	if scope.Branch == "" {
		if err != nil || branch == "" {
			return Scope{}, orSay(err, errDetached)
		}
		scope.Branch = branch
	}
	return scope, nil
}

// OpenHere opens the backlog of the current directory: it is [Locate],
// [DetectScope] and [Open] in one, and as much as possible at the same time.
// Their errors come in the order in which the parts are needed: the place, the
// database, the scope. So a database is made even where the scope is missing.
func OpenHere(ctx context.Context, getenv func(string) string) (*Store, error) {
	scope := begin(func() (Scope, error) { return scopeFromGit(ctx, getenv) })
	path, err := Locate(ctx)
	if err != nil {
		_, _ = scope() // it would fail for the same reason
		return nil, err
	}
	// There is a work tree, so git need not be asked whether there is one,
	// unless something is wrong.
	store, openErr := Open(ctx, path, Scope{})
	found, err := scope()
	switch {
	case openErr != nil:
		return nil, openErr
	case err != nil:
		if outside := checkInside(git(ctx, "rev-parse", "--is-inside-work-tree")); outside != nil {
			err = outside
		}
		return nil, errors.Join(err, store.Close())
	}
	store.scope = found
	if err := store.adopt(ctx); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	store.fence = fenceOf(getenv)
	return store, nil
}
