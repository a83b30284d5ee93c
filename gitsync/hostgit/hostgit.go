// Package hostgit runs git on the user's repository, whose working tree has files of an
// untrusted agent.
//
// The git directory is named explicitly, so nothing in the working tree can
// redirect git, and no program that a configuration, a hook or an attribute names
// is started.
package hostgit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/wire/budget"
)

// worktreeTimeout bounds a git process that reads the working tree.
const worktreeTimeout = 10 * time.Second

// Git is the host's git program on the user's repository. Only [Git.InWorktree]
// reads the working tree, in which a named pipe can block git forever; attributes are
// those of the index otherwise.
type Git struct {
	gitrepo.Git
	Root, GitDir, CommonDir string
	// Timeout bounds each process that reads the working tree.
	Timeout time.Duration
	// Owner is the user that owns the repository.
	Owner Owner
}

// New finds git for the repository of a worktree, whose configuration is taken as known.
func New(wt gitrepo.Worktree) (Git, error) {
	program, err := gitrepo.NewGit(wt.GitDir)
	if err != nil {
		return Git{}, err
	}
	program.Environ, program.Known = environ(os.Environ()), wt.Config.FromFiles()
	for name, value := range map[string]string{
		"GIT_DIR": wt.GitDir, "GIT_WORK_TREE": wt.GitDir, "GIT_LITERAL_PATHSPECS": "1",
		noSystem: "1", noSystemAttributes: cmp.Or(os.Getenv(noSystemAttributes), "0"), "GIT_TERMINAL_PROMPT": "0",
		"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C",
	} {
		program.Environ = append(program.Environ, name+"="+value)
	}
	g := Git{Git: program, Root: wt.Root, GitDir: wt.GitDir, CommonDir: wt.CommonDir, Timeout: worktreeTimeout, Owner: ownerOf(wt.GitDir)}
	return g.configured().WithLock(nil), nil
}

// environ selects the variables that git needs from the user's environment.
func environ(all []string) []string {
	keep := map[string]bool{
		"PATH": true, "HOME": true, "XDG_CONFIG_HOME": true, "GIT_CONFIG_GLOBAL": true, "GIT_CONFIG_SYSTEM": true, "TMPDIR": true,
		"SYSTEMROOT": true, "USERPROFILE": true, "HOMEDRIVE": true, "HOMEPATH": true, "APPDATA": true, "TEMP": true, "TMP": true,
	}
	return slices.DeleteFunc(all, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !keep[strings.ToUpper(name)]
	})
}

// hardened returns the settings of [Git] beyond those of every gitrepo.Git.
func hardened() []string {
	return []string{
		"core.logAllRefUpdates=always", "core.quotePath=false",
		"fetch.recurseSubmodules=false", "transfer.fsckObjects=true", "fetch.fsckObjects=true",
	}
}

// configured returns a Git with the settings for the known configuration.
func (g Git) configured() Git {
	g.Git.Config = hardened()
	if !g.Owner.isOther() { // or else the home directory is another one
		g.Git.Config = append(g.Git.Config, "core.attributesFile="+globalAttributes(g.Known))
	}
	return g
}

// With adds environment variables.
func (g Git) With(entries ...string) Git {
	g.Environ = slices.Concat(g.Environ, entries)
	return g
}

// WithLock makes git processes hold a lock too: it outlives a killed command until
// its last git process has ended.
func (g Git) WithLock(lock *os.File) Git {
	owner := g.Owner
	g.Prepare = func(cmd *exec.Cmd) {
		inherit(cmd, lock)
		owner.runAs(cmd)
	}
	return g
}

// WithMemoryLimit is [gitrepo.Git.WithMemoryLimit].
func (g Git) WithMemoryLimit() Git {
	g.Git = g.Git.WithMemoryLimit()
	return g
}

// OutOfMemory reports whether git has failed for lack of memory.
func OutOfMemory(err error) bool {
	failed, is := errors.AsType[*gitrepo.GitError](err)
	return is && strings.Contains(failed.Stderr, "ut of memory")
}

// maxRef is the budget of HEAD and of a loose ref, in bytes: a name, or a hash.
const maxRef = 64 << 10

// Output returns the output of git unchanged.
func (g Git) Output(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	stdout := g.Buffer(args...)
	err := g.Stream(ctx, stdin, stdout, args...)
	return stdout.Bytes(), cmp.Or(stdout.Err(), err)
}

// InWorktree runs git where it reads the files of the working tree, until the
// timeout. It holds no lock: a blocked process of a killed command delays no other.
func (g Git) InWorktree(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	g = g.With("GIT_WORK_TREE=" + g.Root).WithLock(nil)
	g.Dir = g.Root
	return gitrepo.AtPipe(ctx, g.Root, func(ctx context.Context) ([]byte, error) { return g.Output(ctx, nil, args...) })
}

// Line returns the output of git without the final newline.
func (g Git) Line(ctx context.Context, args ...string) (string, error) {
	out, err := g.Output(ctx, nil, args...)
	return strings.TrimRight(string(out), "\n"), err
}

// Resolve returns the commit of a ref; empty if there is none.
func (g Git) Resolve(ctx context.Context, ref string) (string, error) {
	oid, err := g.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	if gitrepo.SaysNo(err) {
		return "", nil
	}
	return oid, err
}

// Contains reports whether a commit is a descendant of another one, or the same.
// The empty commit is an ancestor of all.
func (g Git) Contains(ctx context.Context, commit, ancestor string) (bool, error) {
	if ancestor == "" || ancestor == commit {
		return true, nil
	}
	_, err := g.Output(ctx, nil, "merge-base", "--is-ancestor", ancestor, commit)
	if gitrepo.SaysNo(err) {
		return false, nil
	}
	return err == nil, err
}

// Branch returns the branch that is checked out; empty at a detached HEAD. It reads the file
// HEAD (gitrepository-layout(5)); git is asked if that has another form, as with reftables,
// or if the branch may be a symbolic ref.
func (g Git) Branch(ctx context.Context) (string, error) {
	if head, err := budget.ReadFile(filepath.Join(g.GitDir, "HEAD"), maxRef); err == nil {
		name, is := strings.CutPrefix(strings.TrimSuffix(string(head), "\n"), "ref: refs/heads/")
		loose, _ := budget.ReadFile(filepath.Join(g.CommonDir, "refs", "heads", filepath.FromSlash(name)), maxRef)
		if is && name != ".invalid" && !strings.HasPrefix(string(loose), "ref:") {
			return name, nil
		}
	}
	ref, err := g.Line(ctx, "symbolic-ref", "--quiet", "HEAD")
	if gitrepo.SaysNo(err) {
		return "", nil
	}
	name, ok := strings.CutPrefix(ref, "refs/heads/")
	if err == nil && !ok {
		err = fmt.Errorf("reading HEAD: %q is not a branch", ref)
	}
	return name, err
}

// Refs returns the user's branches, tags and remote branches, and one other ref, without
// symbolic refs.
func (g Git) Refs(ctx context.Context, other string) (refs map[string]string, oid string, err error) {
	out, err := g.Output(ctx, nil, "for-each-ref", "--format=%(objectname) %(refname) %(symref)", "refs/heads", "refs/tags", "refs/remotes", other)
	if err != nil {
		return nil, "", fmt.Errorf("listing refs: %w", err)
	}
	refs = map[string]string{}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) == 2 {
			refs[fields[1]] = fields[0]
		}
	}
	oid = refs[other]
	delete(refs, other)
	return refs, oid, nil
}

// Merged returns those of the user's branches, tags and remote branches whose commits a branch has.
func (g Git) Merged(ctx context.Context, branch string) (map[string]bool, error) {
	out, err := g.Output(ctx, nil, "for-each-ref", "--format=%(refname)", "--merged=refs/heads/"+branch, "refs/heads", "refs/tags", "refs/remotes")
	if err != nil {
		return nil, fmt.Errorf("listing refs: %w", err)
	}
	merged := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		merged[strings.TrimSuffix(line, "\n")] = true
	}
	return merged, nil
}
