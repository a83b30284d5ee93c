// Package sandboxclitest sets up fakes of sbx and "docker sandbox" for tests.
package sandboxclitest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
)

// nobody is the user of process mode if root runs the tests.
const nobody = 65534

const program = "github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli/program"

// compiledEnv is the path of a program that a parent process has built.
const compiledEnv = "SANDBOXCLITEST_PROGRAM"

// compiled is the program, built once for each run of a test binary.
var compiled = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(compiledEnv); path != "" {
		return path, nil
	}
	return compile()
})

// BuildOnce builds the program for this process and for those that it starts.
func BuildOnce() error {
	path, err := compiled()
	if err != nil {
		return err
	}
	return os.Setenv(compiledEnv, path)
}

// compile builds the program in the user's cache. Concurrent test binaries build the same
// one.
func compile() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "docker-ralph", "fake")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	temporary, err := os.MkdirTemp(dir, "build-*")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	built, final := filepath.Join(temporary, "fake"), filepath.Join(dir, "fake")
	// Go does not link an up-to-date program again.
	_ = exec.Command("cp", "-p", final, built).Run()                      //nolint:noctx // as below; it is missing the first time
	cmd := exec.Command("go", "build", "-trimpath", "-o", built, program) //nolint:noctx // it is for all tests, not for one
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the fake: %w: %s", err, out)
	}
	return final, os.Rename(built, final)
}

// Build writes the fake to a directory as sbx and as docker-sandbox.
func Build(t testing.TB, dir string) {
	t.Helper()
	source, err := compiled()
	assert.NilError(t, err)
	assert.NilError(t, os.MkdirAll(dir, 0o755))
	first := filepath.Join(dir, "sbx")
	// A child that is forked while this process writes the file would keep it open
	// ("text file busy").
	out, err := exec.CommandContext(t.Context(), "cp", source, first).CombinedOutput()
	assert.NilError(t, err, "%s", out)
	assert.NilError(t, os.Link(first, filepath.Join(dir, "docker-sandbox")))
}

// Fake is a pair of fakes with a state directory.
type Fake struct {
	Dir string // the state folder
	Bin string // the folder with sbx and docker-sandbox
	// DockerConfig is a directory for "docker --config" with the plugin.
	DockerConfig string
	// Shared is a directory for worktrees that the user of sandboxes can access.
	Shared string
}

// New sets up fakes with changed settings; nil keeps the defaults. Everything is removed
// when the test ends.
//
// If root runs the tests, process mode runs everything as nobody: worktrees have to be below
// Shared or passed to [Fake.Share].
func New(t testing.TB, change func(*sandboxcli.Settings)) *Fake {
	t.Helper()
	s := sandboxcli.Defaults()
	if change != nil {
		change(&s)
	}
	base := t.TempDir()
	base, err := filepath.EvalSymlinks(base)
	assert.NilError(t, err)
	d := &Fake{
		Dir: filepath.Join(base, "state"), Bin: filepath.Join(base, "bin"),
		DockerConfig: filepath.Join(base, "docker"), Shared: filepath.Join(base, "shared"),
	}
	plugins := filepath.Join(d.DockerConfig, "cli-plugins")
	for _, dir := range []string{d.Dir, d.Shared, plugins} {
		assert.NilError(t, os.MkdirAll(dir, 0o755))
	}
	assert.NilError(t, s.Save(d.Dir))
	Build(t, d.Bin)
	assert.NilError(t, os.Symlink(filepath.Join(d.Bin, "docker-sandbox"), filepath.Join(plugins, "docker-sandbox")))
	if os.Geteuid() == 0 && s.Mode == sandboxcli.ModeProcess {
		d.dropRoot(t)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		assert.Check(t, sandboxcli.Purge(ctx, d.Dir))
	})
	return d
}

// dropRoot lets the programs run as nobody even if root calls them.
func (d *Fake) dropRoot(t testing.TB) {
	t.Helper()
	for _, name := range []string{"sbx", "docker-sandbox"} {
		path := filepath.Join(d.Bin, name)
		assert.NilError(t, os.Chown(path, nobody, nobody))
		assert.NilError(t, os.Chmod(path, 0o755|os.ModeSetuid|os.ModeSetgid))
	}
	d.Share(t, d.Dir)
	d.Share(t, d.Shared)
}

// Share changes the owner of a directory and its content to the user of sandboxes, and makes
// it accessible. It does nothing unless root runs the test.
func (d *Fake) Share(t testing.TB, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	for up := filepath.Dir(dir); up != "/"; up = filepath.Dir(up) {
		info, err := os.Stat(up)
		assert.NilError(t, err)
		if info.Mode().Perm()&0o001 == 0 && strings.HasPrefix(up, os.TempDir()+"/") {
			assert.NilError(t, os.Chmod(up, info.Mode().Perm()|0o011))
		}
	}
	assert.NilError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, nobody, nobody)
	}))
}

// Set changes the settings.
func (d *Fake) Set(t testing.TB, change func(*sandboxcli.Settings)) {
	t.Helper()
	assert.NilError(t, sandboxcli.Update(d.Dir, change))
}

// Env is the environment of programs that use the fakes: that of the test with another PATH,
// DOCKER_CONFIG and the state directory.
func (d *Fake) Env() []string {
	return append(os.Environ(),
		"PATH="+d.Bin+string(os.PathListSeparator)+os.Getenv("PATH"), "DOCKER_CONFIG="+d.DockerConfig, sandboxcli.DirEnv+"="+d.Dir)
}

// Setenv sets [Fake.Env] for the test itself.
func (d *Fake) Setenv(t testing.TB) {
	t.Helper()
	t.Setenv("PATH", d.Bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("DOCKER_CONFIG", d.DockerConfig)
	t.Setenv(sandboxcli.DirEnv, d.Dir)
}

// Sbx returns a command of the fake sbx.
func (d *Fake) Sbx(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(d.Bin, "sbx"), args...)
	cmd.Env = d.Env()
	return cmd
}

// Plugin returns a command of the fake "docker sandbox", as the Docker CLI calls it.
func (d *Fake) Plugin(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(d.Bin, "docker-sandbox"), append([]string{"sandbox"}, args...)...)
	cmd.Env = d.Env()
	return cmd
}
