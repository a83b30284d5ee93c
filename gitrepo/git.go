package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// killGrace bounds the wait for the pipes of a git process that has ended or was
// cancelled: somebody that it has started may hold them.
const killGrace = time.Second

// git runs the host's git program in one directory.
type git struct {
	program string
	dir     string
	environ []string
}

// answer is what one git process said.
type answer struct {
	stdout, stderr string
	err            error
}

// says looks for git's own words, which LC_ALL=C keeps in English.
func (a answer) says(words string) bool {
	return a.err != nil && strings.Contains(strings.ToLower(a.stderr), words)
}

func newGit(dir string) (git, error) {
	program, err := exec.LookPath("git")
	if errors.Is(err, exec.ErrNotFound) {
		return git{}, errors.New("the git program was not found in PATH: install git (https://git-scm.com/downloads)")
	}
	if err != nil {
		return git{}, fmt.Errorf("looking for the git program: %w", err)
	}
	return git{program: program, dir: dir, environ: gitEnviron(os.Environ())}, nil
}

// run asks one question. On a machine that has too much to do, what git has said
// may not be read in time after its end, and is asked for once more.
func (g git) run(ctx context.Context, args ...string) answer {
	a := g.ask(ctx, args...)
	if errors.Is(a.err, exec.ErrWaitDelay) && ctx.Err() == nil {
		a = g.ask(ctx, args...)
	}
	return a
}

// ask starts git once. Settings that make git start programs are overridden:
// the repository may have been written by an agent. Bare repositories are not
// looked for, because any folder of a work tree can be made to look like one.
func (g git) ask(ctx context.Context, args ...string) answer {
	hardened := []string{
		"--no-pager",
		"-c", "core.fsmonitor=false",
		"-c", "core.hooksPath=" + os.DevNull,
		"-c", "core.attributesFile=" + os.DevNull,
		"-c", "protocol.ext.allow=never",
		"-c", "safe.bareRepository=explicit",
	}
	cmd := exec.CommandContext(ctx, g.program, append(hardened, args...)...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = g.dir, g.environ, killGrace
	ownGroup(cmd)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	a := answer{stdout: stdout.String(), stderr: stderr.String(), err: err}
	var exit *exec.ExitError
	switch {
	case err != nil && ctx.Err() != nil:
		a.err = ctx.Err() // or else its end would be told, and not why
	case errors.As(err, &exit):
		a.err = gitError(a.stderr, exit)
	}
	return a
}

// gitError passes git's own words on: they often say what to do, as with a
// repository of another owner.
func gitError(stderr string, exit *exec.ExitError) error {
	words := strings.TrimSpace(stderr)
	if words == "" {
		return fmt.Errorf("git: %w", exit)
	}
	return fmt.Errorf("git: %s", strings.TrimPrefix(words, "fatal: "))
}

// gitEnviron is the caller's environment without what points git at another
// repository or lets it ask, write or speak another language. The user's own
// configuration (GIT_CONFIG_GLOBAL, GIT_CONFIG_COUNT, …) and the limits of the
// search (GIT_CEILING_DIRECTORIES) stay.
func gitEnviron(environ []string) []string {
	drop := map[string]bool{
		"GIT_DIR": true, "GIT_WORK_TREE": true, "GIT_IMPLICIT_WORK_TREE": true,
		"GIT_COMMON_DIR": true, "GIT_INDEX_FILE": true, "GIT_PREFIX": true,
		"GIT_OBJECT_DIRECTORY": true, "GIT_ALTERNATE_OBJECT_DIRECTORIES": true,
		"GIT_NAMESPACE": true, "GIT_CONFIG": true, "GIT_GRAFT_FILE": true,
		"GIT_SHALLOW_FILE": true, "GIT_REPLACE_REF_BASE": true,
		"GIT_TERMINAL_PROMPT": true, "GIT_OPTIONAL_LOCKS": true,
		"LC_ALL": true, "LANGUAGE": true,
	}
	kept := make([]string, 0, len(environ)+3)
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !drop[strings.ToUpper(name)] {
			kept = append(kept, entry)
		}
	}
	return append(kept, "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
}
