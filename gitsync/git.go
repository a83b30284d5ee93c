package gitsync

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
)

// statusTimeout bounds a git process that looks at the files of the work tree.
const statusTimeout = 10 * time.Second

// git runs the host's git program on the user's repository, which is named
// explicitly: nothing in the work tree can lead it elsewhere.
//
// The work tree is not even looked at, except by [git.look]: an agent can put
// pipes there, which git would wait at for ever. Attributes are those of the
// index then.
type git struct {
	gitrepo.Git
	// root is the work tree, and timeout how long a process may look at it.
	root    string
	timeout time.Duration
	// held is a lock that outlives us as long as a git process works that we
	// have started.
	held  *os.File
	owner owner
}

func newGit(root, gitDir string) (git, error) {
	program, err := gitrepo.NewGit(gitDir)
	if err != nil {
		return git{}, err
	}
	program.Environ, program.Config = passed(os.Environ()), hardened()
	for name, value := range map[string]string{
		"GIT_DIR": gitDir, "GIT_WORK_TREE": gitDir, "GIT_LITERAL_PATHSPECS": "1",
		"GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0",
		"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C",
	} {
		program.Environ = append(program.Environ, name+"="+value)
	}
	return git{Git: program, root: root, timeout: statusTimeout, owner: ownerOf(gitDir)}, nil
}

// passed are the variables that git needs of the user's environment.
func passed(environ []string) []string {
	keep := map[string]bool{
		"PATH": true, "HOME": true, "XDG_CONFIG_HOME": true, "GIT_CONFIG_GLOBAL": true, "TMPDIR": true,
		"SYSTEMROOT": true, "USERPROFILE": true, "HOMEDRIVE": true, "HOMEPATH": true, "APPDATA": true, "TEMP": true, "TMP": true,
	}
	var kept []string
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); keep[strings.ToUpper(name)] {
			kept = append(kept, entry)
		}
	}
	return kept
}

// hardened are settings that only this repository needs.
func hardened() []string {
	return []string{
		"core.attributesFile=" + os.DevNull,
		"core.alternateRefsCommand=true", "core.logAllRefUpdates=always", "core.quotePath=false",
		"protocol.allow=never", "protocol.file.allow=always",
		"fetch.recurseSubmodules=false", "transfer.fsckObjects=true", "fetch.fsckObjects=true",
		"gc.auto=0", "maintenance.auto=false",
	}
}

// with adds variables to git's environment.
func (g git) with(entries ...string) git {
	g.Environ = slices.Concat(g.Environ, entries)
	return g
}

// run runs git and returns its output as it is.
func (g git) run(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	var stdout bytes.Buffer
	err := g.stream(ctx, stdin, &stdout, args...)
	return stdout.Bytes(), err
}

// stream runs git and hands its output on.
func (g git) stream(ctx context.Context, stdin io.Reader, stdout io.Writer, args ...string) error {
	g.Prepare = func(cmd *exec.Cmd) {
		inherit(cmd, g.held)
		g.owner.runAs(cmd)
	}
	return g.Stream(ctx, stdin, stdout, args...)
}

// look runs git where it sees the files of the work tree, for a limited time. It
// holds no lock of ours: when we are killed, nobody waits for it.
func (g git) look(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	g = g.with("GIT_WORK_TREE=" + g.root)
	g.Dir, g.held = g.root, nil
	return gitrepo.AtPipe(ctx, g.root, func(ctx context.Context) ([]byte, error) { return g.run(ctx, nil, args...) })
}

// line returns the only line of what git says.
func (g git) line(ctx context.Context, args ...string) (string, error) {
	out, err := g.run(ctx, nil, args...)
	return strings.TrimRight(string(out), "\n"), err
}

// resolve returns the commit that a ref names; empty if there is none.
func (g git) resolve(ctx context.Context, ref string) (string, error) {
	oid, err := g.line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	if gitrepo.SaysNo(err) {
		return "", nil
	}
	return oid, err
}

// contains reports whether a commit is an ancestor of another, or the same.
// Nothing is before the first commit.
func (g git) contains(ctx context.Context, commit, ancestor string) (bool, error) {
	if ancestor == "" || ancestor == commit {
		return true, nil
	}
	_, err := g.run(ctx, nil, "merge-base", "--is-ancestor", ancestor, commit)
	if gitrepo.SaysNo(err) {
		return false, nil
	}
	return err == nil, err
}

// branch returns the branch that is checked out; empty for none.
func (g git) branch(ctx context.Context) (string, error) {
	ref, err := g.line(ctx, "symbolic-ref", "--quiet", "HEAD")
	if gitrepo.SaysNo(err) {
		return "", nil
	}
	name, ok := strings.CutPrefix(ref, "refs/heads/")
	if err == nil && !ok {
		err = fmt.Errorf("HEAD leads to %q, which is no branch: check one out", ref)
	}
	return name, err
}

// refs returns the user's branches, tags and remote branches.
func (g git) refs(ctx context.Context) (map[string]string, error) {
	out, err := g.run(ctx, nil, "for-each-ref", "--format=%(objectname) %(refname) %(symref)", "refs/heads", "refs/tags", "refs/remotes")
	if err != nil {
		return nil, fmt.Errorf("listing the branches: %w", err)
	}
	refs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) == 2 { // one that leads to another is left out
			refs[fields[1]] = fields[0]
		}
	}
	return refs, nil
}
