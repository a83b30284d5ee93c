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

// git runs git in the current directory. Other tools replace the program by one
// that knows only the arguments used in this file.
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

// gitFailure is a failed command of git.
type gitFailure struct {
	args   []string
	stderr string
}

func (f *gitFailure) Error() string {
	return fmt.Sprintf("git %s: %s", strings.Join(f.args, " "), strings.TrimSpace(f.stderr))
}

// replaceFailure returns err in place of a failure, or of the empty output, of
// git. Other errors are returned unchanged.
func replaceFailure(failure, err error) error {
	var f *gitFailure
	if failure == nil || errors.As(failure, &f) {
		return err
	}
	return failure
}

// startGit runs git in the background and returns a function that waits for it.
func startGit(ctx context.Context, args ...string) func() (string, error) {
	return async(func() (string, error) { return git(ctx, args...) })
}

// async runs f in the background and returns a function that waits for its result.
func async[T any](f func() (T, error)) (wait func() (T, error)) {
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

// Locate returns the absolute path of the task database of the current worktree.
// The file need not exist.
func Locate(ctx context.Context) (string, error) {
	top, err := git(ctx, "rev-parse", "--show-toplevel")
	if err != nil || top == "" {
		return "", replaceFailure(err, errNoRepository)
	}
	path, err := filepath.Abs(filepath.Join(top, ".ralph", "tasks.db"))
	if err != nil {
		return "", fmt.Errorf("finding the task database: %w", err)
	}
	return path, nil
}

// DetectScope returns the scope of the current directory, from RALPH_SCOPE_REPO
// and RALPH_SCOPE_BRANCH or else from git. With both set, git is not run.
func DetectScope(ctx context.Context, getenv func(string) string) (Scope, error) {
	if scope, set := scopeFromEnv(getenv); set {
		return scope, nil
	}
	inside := startGit(ctx, "rev-parse", "--is-inside-work-tree")
	scope, err := scopeFromGit(ctx, getenv)
	// A bare repository can have a remote and a branch as well.
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
		return replaceFailure(err, errNoRepository)
	}
	return nil
}

// scopeFromGit runs both commands at the same time, to save the time to start git.
func scopeFromGit(ctx context.Context, getenv func(string) string) (Scope, error) {
	scope, set := scopeFromEnv(getenv)
	if set {
		return scope, nil
	}
	remote, current := startGit(ctx, "remote", "get-url", "origin"), startGit(ctx, "branch", "--show-current")
	url, err := remote()
	if scope.Repo == "" {
		if err != nil {
			return Scope{}, replaceFailure(err, errNoOrigin)
		}
		if scope.Repo, err = scopes.Slug(url); err != nil {
			return Scope{}, hint.Wrap(fmt.Errorf("git remote \"origin\": %w", err), "run %q", "git remote set-url origin URL")
		}
	}
	branch, err := current()
	if scope.Branch == "" {
		if err != nil || branch == "" {
			return Scope{}, replaceFailure(err, errDetached)
		}
		scope.Branch = branch
	}
	return scope, nil
}

// OpenHere opens the backlog of the current directory. It runs [Locate],
// [DetectScope] and [Open] concurrently and returns their first error in this
// order: location, database, scope. A database is created even without a scope.
// [CopyEnv] names another database.
func OpenHere(ctx context.Context, getenv func(string) string) (*Store, error) {
	scope := async(func() (Scope, error) { return scopeFromGit(ctx, getenv) })
	path, err := Locate(ctx)
	if err != nil {
		_, _ = scope() // fails for the same reason
		return nil, err
	}
	store, openErr := openOrCopy(ctx, path, getenv(CopyEnv))
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
	if err := store.migrateScope(ctx); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// openOrCopy opens the database at path, or in its place a copy of it.
func openOrCopy(ctx context.Context, path, copied string) (*Store, error) {
	if copied == "" {
		return Open(ctx, path, Scope{})
	}
	return OpenCopy(ctx, copied, filepath.Dir(filepath.Dir(path)), Scope{})
}
