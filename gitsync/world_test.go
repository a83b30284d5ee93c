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
	"github.com/docker-ralph/docker-ralph/gitsync/objectdirs"
)

// templateDir has the worlds that tests clone.
var templateDir string

// TestMain gives all tests one empty home directory: tests that change the environment
// cannot run in parallel.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" { // it has its test's
		m.Run()
		return
	}
	home, err := os.MkdirTemp("", "gitsync-home-")
	if err == nil {
		err = errors.Join(os.Setenv("HOME", home), os.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config")))
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

// homeOf sets a home directory for a test that writes to it.
func homeOf(t *testing.T) string {
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

// world is a user's repository and a sandbox that works on its files: a second git
// directory.
type world struct {
	t    testing.TB
	dir  string
	root string // the work tree
	own  string // the sandbox's git directory
	repo *Repo
}

// environ is the environment of the user's git and the sandbox's.
func (w *world) environ() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
	}
}

// empty creates a world whose repository has no commits.
func empty(t testing.TB, initArgs ...string) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	w := &world{t: t, dir: dir, root: filepath.Join(dir, "repo"), own: filepath.Join(dir, filepath.Base(Folder))}
	w.run(dir, nil, "git", append([]string{"init", "-q", "-b", "main", "--template=", w.root}, initArgs...)...)
	return w
}

// simple creates a world with a commit of three files.
func simple(t testing.TB, initArgs ...string) *world {
	t.Helper()
	if len(initArgs) > 0 {
		return build(t, initArgs...)
	}
	return template(t, "simple", func() *world { return build(t) }).clone(t)
}

func build(t testing.TB, initArgs ...string) *world {
	t.Helper()
	w := empty(t, initArgs...)
	w.write("a.txt", "a\n")
	w.write("b.txt", "b\n")
	w.write("dir/c.txt", "c\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "first")
	return w
}

// sandboxed creates a simple world with a sandbox.
func sandboxed(t testing.TB) *world {
	t.Helper()
	return template(t, "sandboxed", func() *world { return build(t).sandbox() }).clone(t).open()
}

var (
	templates   = map[string]*world{}
	templatesMu sync.Mutex
)

// template creates a world once for all tests.
func template(t testing.TB, name string, make func() *world) *world {
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

// clone copies a world.
func (w *world) clone(t testing.TB) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	assert.NilError(t, err)
	return w.cloneInto(t, dir)
}

func (w *world) cloneInto(t testing.TB, dir string) *world {
	t.Helper()
	assert.NilError(t, os.CopyFS(dir, os.DirFS(w.dir)))
	c := &world{t: t, dir: dir, root: filepath.Join(dir, "repo"), own: filepath.Join(dir, filepath.Base(Folder))}
	alternates := filepath.Join(c.own, "objects", "info", "alternates")
	if content, err := os.ReadFile(alternates); err == nil {
		assert.NilError(t, os.WriteFile(alternates, bytes.ReplaceAll(content, []byte(w.dir), []byte(dir)), 0o644))
	}
	return c
}

// open opens the repository for the sandbox and fills its git directory.
func (w *world) open() *world {
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
	w.repo.folder = w.own
	return w
}

func (w *world) sandbox() *world {
	w.t.Helper()
	w.open()
	assert.NilError(w.t, w.repo.Check(w.t.Context()))
	w.fill()
	return w
}

func (w *world) fill() {
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
	w.linkObjects()
}

// linkObjects makes alternates point to the objects on this machine.
func (w *world) linkObjects() {
	w.t.Helper()
	path := filepath.Join(w.own, "objects", "info", "alternates")
	content, err := os.ReadFile(path)
	assert.NilError(w.t, err)
	assert.NilError(w.t, os.WriteFile(path, bytes.ReplaceAll(content, []byte(objectdirs.MountRoot), nil), 0o644))
}

func (w *world) run(dir string, stdin io.Reader, name string, args ...string) string {
	w.t.Helper()
	return w.runEnv(dir, stdin, nil, name, args...)
}

func (w *world) runEnv(dir string, stdin io.Reader, env []string, name string, args ...string) string {
	w.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdin, cmd.Env = dir, stdin, append(w.environ(), env...)
	out, err := cmd.CombinedOutput()
	assert.NilError(w.t, err, "%s %q: %s", name, args, out)
	return strings.TrimSuffix(string(out), "\n")
}

// git is the user's.
func (w *world) git(args ...string) string {
	w.t.Helper()
	return w.run(w.root, nil, "git", args...)
}

// agent is the git in the sandbox.
func (w *world) agent(args ...string) string {
	w.t.Helper()
	return w.runEnv(w.root, nil, w.inside(), "git", args...)
}

func (w *world) inside() []string {
	return []string{"GIT_DIR=" + w.own, "GIT_WORK_TREE=" + w.root}
}

// sh is the Shell of the sandbox.
func (w *world) sh(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sh"}, args...)...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = w.root, stdin, stdout, &stderr
	cmd.Env = append(w.environ(), w.inside()...)
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return &ScriptError{Code: exit.ExitCode(), Stderr: stderr.String()}
	}
	return err
}

func (w *world) write(name, content string) {
	w.t.Helper()
	path := filepath.Join(w.root, name)
	assert.NilError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(w.t, os.WriteFile(path, []byte(content), 0o644))
}

// commit has the agent write a file and commit it alone.
func (w *world) commit(name, content string) string {
	w.t.Helper()
	w.write(name, content)
	w.agent("add", "--", name)
	w.agent("commit", "-q", "-m", "agent: "+name)
	return w.agent("rev-parse", "HEAD")
}

func (w *world) out() Result {
	w.t.Helper()
	res, err := w.repo.Fetch(w.t.Context(), w.sh, true)
	assert.NilError(w.t, err)
	return res
}

func (w *world) in() {
	w.t.Helper()
	_, err := w.repo.Push(w.t.Context(), w.sh)
	assert.NilError(w.t, err)
}

func (w *world) tip(ref string) string {
	w.t.Helper()
	return w.git("rev-parse", ref)
}

// clean asserts that the user sees nothing that is not committed.
func (w *world) clean() {
	w.t.Helper()
	assert.Equal(w.t, w.git("status", "--porcelain"), "")
}
