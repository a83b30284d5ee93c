package gitsync

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/wire"
)

// templateDir has the fixtures that tests clone.
var templateDir string

// TestMain gives all tests one empty home directory, and keeps the system's configuration out, which may have
// Git LFS: tests that change the environment cannot run in parallel.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" { // the parent has set HOME
		m.Run()
		return
	}
	home, err := os.MkdirTemp("", "gitsync-home-")
	if err == nil {
		err = errors.Join(os.Setenv("HOME", home), os.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config")), os.Setenv("GIT_CONFIG_NOSYSTEM", "1"))
	}
	if err != nil {
		panic(err)
	}
	templateDir = filepath.Join(home, "templates")
	if err := os.Mkdir(templateDir, 0o700); err != nil {
		panic(err)
	}
	m.Run()
	_ = os.RemoveAll(home)
}

// setHome sets a home directory for a test that writes to it.
func setHome(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
	return home
}

// writeProgram writes a program to be run at once. A child that another test forks
// meanwhile would hold it open ("text file busy").
func writeProgram(t testing.TB, path, script string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	assert.NilError(t, os.WriteFile(path, []byte(script), 0o700))
}

// fixture is a user's repository and a sandbox with a clone of it.
type fixture struct {
	t      testing.TB
	dir    string
	root   string // the worktree
	gitDir string // the sandbox's git directory
	work   string // the sandbox's working tree
	repo   *Repo
}

// env is the environment of the user's git and the sandbox's.
func (w *fixture) env() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
	}
}

func fixtureIn(t testing.TB, dir string) *fixture {
	return &fixture{t: t, dir: dir, root: filepath.Join(dir, "repo"), gitDir: filepath.Join(dir, filepath.Base(Folder)), work: filepath.Join(dir, filepath.Base(wire.CloneDir))}
}

// emptyRepo creates a fixture whose repository has no commits.
func emptyRepo(t testing.TB, initArgs ...string) *fixture {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	w := fixtureIn(t, dir)
	w.run(dir, nil, "git", append([]string{"init", "-q", "-b", "main", "--template=", w.root}, initArgs...)...)
	return w
}

// newRepo creates a fixture with a commit of three files.
func newRepo(t testing.TB, initArgs ...string) *fixture {
	t.Helper()
	if len(initArgs) > 0 {
		return buildRepo(t, initArgs...)
	}
	return template(t, "simple", func() *fixture { return buildRepo(t) }).clone(t)
}

func buildRepo(t testing.TB, initArgs ...string) *fixture {
	t.Helper()
	w := emptyRepo(t, initArgs...)
	w.write("a.txt", "a\n")
	w.write("b.txt", "b\n")
	w.write("dir/c.txt", "c\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "first")
	return w
}

// newSandbox creates a simple fixture with a sandbox.
func newSandbox(t testing.TB) *fixture {
	t.Helper()
	return template(t, "sandboxed", func() *fixture { return buildRepo(t).createSandbox() }).clone(t).openRepo()
}

var (
	templates   = map[string]*fixture{}
	templatesMu sync.Mutex
)

// template creates a fixture once for all tests.
func template(t testing.TB, name string, make func() *fixture) *fixture {
	t.Helper()
	templatesMu.Lock()
	defer templatesMu.Unlock()
	if templates[name] == nil {
		dir, err := os.MkdirTemp(templateDir, name+"-")
		assert.NilError(t, err)
		templates[name] = make().cloneInto(t, dir)
	}
	return templates[name]
}

// clone copies a fixture.
func (w *fixture) clone(t testing.TB) *fixture {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	return w.cloneInto(t, dir)
}

func (w *fixture) cloneInto(t testing.TB, dir string) *fixture {
	t.Helper()
	assert.NilError(t, os.CopyFS(dir, os.DirFS(w.dir)))
	return fixtureIn(t, dir)
}

// openRepo opens the repository for the sandbox and fills its git directory.
func (w *fixture) openRepo() *fixture {
	w.t.Helper()
	gitDir := filepath.Join(w.root, ".git")
	wt := gitrepo.Worktree{Root: w.root, MainRoot: w.root, GitDir: gitDir, CommonDir: gitDir}
	if info, err := os.Lstat(gitDir); err != nil || !info.IsDir() {
		wt, err = gitrepo.Detect(w.t.Context(), w.root, func(name string) string {
			return map[string]string{"RALPH_SCOPE_REPO": "acme/shop"}[name]
		})
		assert.NilError(w.t, err)
	}
	var err error
	w.repo, err = Open(wt, "ralph-test", filepath.Join(w.dir, "state"))
	assert.NilError(w.t, err)
	w.repo.folder = w.gitDir
	return w
}

// createSandbox creates a sandbox, in which a command may run.
func (w *fixture) createSandbox() *fixture {
	w.t.Helper()
	w.fillSandbox().start()
	return w
}

// fillSandbox creates a sandbox, to which nothing was pushed.
func (w *fixture) fillSandbox() *fixture {
	w.t.Helper()
	w.openRepo()
	assert.NilError(w.t, w.repo.Check(w.t.Context()))
	w.fill()
	return w
}

func (w *fixture) fill() {
	w.t.Helper()
	var archive bytes.Buffer
	assert.NilError(w.t, w.repo.Fill(w.t.Context(), fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()), &archive))
	r := tar.NewReader(&archive)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		assert.NilError(w.t, err)
		path := filepath.Join(w.dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			assert.NilError(w.t, os.MkdirAll(path, 0o755))
			continue
		}
		content, err := io.ReadAll(r)
		assert.NilError(w.t, err)
		assert.NilError(w.t, os.WriteFile(path, content, 0o644))
	}
}

func (w *fixture) run(dir string, stdin io.Reader, name string, args ...string) string {
	w.t.Helper()
	return w.runEnv(dir, stdin, nil, name, args...)
}

func (w *fixture) runEnv(dir string, stdin io.Reader, env []string, name string, args ...string) string {
	w.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdin, cmd.Env = dir, stdin, append(w.env(), env...)
	out, err := cmd.CombinedOutput()
	assert.NilError(w.t, err, "%s %q: %s", name, args, out)
	return strings.TrimSuffix(string(out), "\n")
}

// git runs git in the user's repository.
func (w *fixture) git(args ...string) string {
	w.t.Helper()
	return w.run(w.root, nil, "git", args...)
}

// sandboxGit runs git in the sandbox.
func (w *fixture) sandboxGit(args ...string) string {
	w.t.Helper()
	return w.runEnv(w.work, nil, w.sandboxEnv(), "git", args...)
}

func (w *fixture) sandboxEnv() []string {
	return []string{"GIT_DIR=" + w.gitDir, "GIT_WORK_TREE=" + w.work}
}

// sh is the Shell of the sandbox.
func (w *fixture) sh(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sh"}, args...)...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = w.work, stdin, stdout, &stderr
	cmd.Env = append(w.env(), w.sandboxEnv()...)
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return &ScriptError{Code: exit.ExitCode(), Stderr: stderr.String()}
	}
	return err
}

// inSandbox runs a script in the sandbox, which has to succeed, and returns its output.
func (w *fixture) inSandbox(script string) string {
	w.t.Helper()
	var out strings.Builder
	assert.NilError(w.t, w.sh(w.t.Context(), "set -e\n"+script, nil, nil, &out))
	return strings.TrimSuffix(out.String(), "\n")
}

// read reads a file of the user.
func (w *fixture) read(name string) string {
	w.t.Helper()
	content, err := os.ReadFile(filepath.Join(w.root, name))
	assert.NilError(w.t, err)
	return string(content)
}

// write writes a file of the user.
func (w *fixture) write(name, content string) { w.writeIn(w.root, name, content) }

// writeInside writes a file in the sandbox.
func (w *fixture) writeInside(name, content string) { w.writeIn(w.work, name, content) }

func (w *fixture) writeIn(dir, name, content string) {
	w.t.Helper()
	path := filepath.Join(dir, name)
	assert.NilError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(w.t, os.WriteFile(path, []byte(content), 0o644))
}

// commit writes a file and commits it in the sandbox.
func (w *fixture) commit(name, content string) string {
	w.t.Helper()
	w.writeInside(name, content)
	w.sandboxGit("add", "--", name)
	w.sandboxGit("commit", "-q", "-m", "agent: "+name)
	return w.sandboxGit("rev-parse", "HEAD")
}

func (w *fixture) fetch() Result {
	w.t.Helper()
	res, err := w.repo.Fetch(w.t.Context(), w.sh, true)
	assert.NilError(w.t, err)
	return res
}

func (w *fixture) push() Result {
	w.t.Helper()
	res, err := w.repo.Push(w.t.Context(), w.sh)
	assert.NilError(w.t, err)
	return res
}

func (w *fixture) tip(ref string) string {
	w.t.Helper()
	return w.git("rev-parse", ref)
}

// assertClean asserts that the user sees nothing that is not committed.
func (w *fixture) assertClean() {
	w.t.Helper()
	assert.Equal(w.t, w.git("status", "--porcelain"), "")
}

// start starts a command in the sandbox.
func (w *fixture) start() Result {
	w.t.Helper()
	res := w.push()
	assert.NilError(w.t, w.repo.MarkDirty(w.t.Context()))
	return res
}

// commitAll commits everything as an agent.
func (w *fixture) commitAll(message string) {
	w.t.Helper()
	w.sandboxGit("add", "-A")
	w.sandboxGit("commit", "-q", "--allow-empty", "-a", "-m", message)
}
