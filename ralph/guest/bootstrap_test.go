package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"
)

// bootstrapBelow is _bootstrap with its directories below root.
func bootstrapBelow(root string) func([]string) int {
	return command(os.Stderr, func(args []string) error {
		ctx := context.Background() //nolint:forbidigo // in its own process
		b := bootstrap{version: strings.Join(args, " "), bin: root + "/usr/bin", home: os.Getenv("HOME"), root: rootShell{ctx: ctx}}
		return b.run(streams{os.Stdout, os.Stderr})
	})
}

// someUser is the user of an image, where the test may become another.
const someUser = 4321

// sandbox is the root file system of a sandbox. Its only programs
// are those in tools.
type sandbox struct{ root, home, tools, program string }

func newSandbox(t *testing.T) sandbox {
	t.Helper()
	// Not t.TempDir: another user could not enter it.
	root, err := os.MkdirTemp("", "sandbox")
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, os.RemoveAll(root)) })
	s := sandbox{root, root + "/home", root + "/tools", root + "/mounted/ralph"}
	for _, dir := range []string{s.home, s.tools, root + "/mounted", root + "/usr/bin"} {
		assert.NilError(t, os.MkdirAll(dir, 0o755))
	}
	assert.NilError(t, os.Chmod(root, 0o755))
	program, err := os.ReadFile(os.Args[0])
	assert.NilError(t, err)
	assert.NilError(t, os.WriteFile(s.program, program, 0o755))
	for _, name := range []string{"sh", "env", "cp", "mv", "rm", "mkdir", "ln", "install", "chmod", "cat"} {
		path, err := exec.LookPath(name)
		assert.NilError(t, err)
		assert.NilError(t, os.Symlink(path, filepath.Join(s.tools, name)))
	}
	s.give(t)
	return s
}

// give makes everything the user's.
func (s sandbox) give(t *testing.T) {
	t.Helper()
	if os.Getuid() == 0 {
		assert.NilError(t, filepath.WalkDir(s.root, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, someUser, someUser))
		}))
	}
}

func (s sandbox) write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	path = filepath.Join(s.root, path)
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(t, os.WriteFile(path, []byte(content), mode))
	assert.NilError(t, os.Chmod(path, mode))
	s.give(t)
}

func (s sandbox) read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(s.root, path))
	assert.NilError(t, err)
	return string(content)
}

// sudo lets the user write where it may not otherwise, and records its calls.
func (s sandbox) sudo(t *testing.T) {
	t.Helper()
	s.write(t, "tools/sudo", `#!/bin/sh
[ "$1" = -n ] || exit 9
shift
echo "$*" >>"`+s.root+`/sudo.log"
chmod 755 "`+s.root+`/usr/bin"
"$@"; code=$?
chmod 555 "`+s.root+`/usr/bin"
exit $code
`, 0o755)
}

// protect makes the folder of all users' programs such that the user may not write
// to it.
func (s sandbox) protect(t *testing.T) {
	t.Helper()
	assert.NilError(t, os.Chmod(s.root+"/usr/bin", 0o555))
}

func (s sandbox) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.program, args...)
	coverage := filepath.Join(s.root, "coverage") // the test's own belongs to root
	assert.NilError(t, errors.Join(os.MkdirAll(coverage, 0o777), os.Chmod(coverage, 0o777)))
	cmd.Env = []string{
		"GUEST_TEST_COMMAND=_bootstrap", "GUEST_TEST_ROOT=" + s.root, "HOME=" + s.home, "PATH=" + s.tools,
		"GORACE=atexit_sleep_ms=0", "GOCOVERDIR=" + coverage,
	}
	cmd.Dir = "/"
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: someUser, Gid: someUser}}
	}
	return cmd
}

func (s sandbox) bootstrap(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return result(t, s.command(t, args...))
}

// done calls _bootstrap, which has to say where ralph is and whether it did anything.
func (s sandbox) done(t *testing.T, path string, want bool, args ...string) {
	t.Helper()
	stdout, stderr, code := s.bootstrap(t, args...)
	assert.Equal(t, stderr, "")
	assert.Equal(t, code, 0)
	var got bootstrapResult
	assert.NilError(t, json.Unmarshal([]byte(stdout), &got))
	assert.DeepEqual(t, got, bootstrapResult{s.root + path, want})
}

func (s sandbox) hash(t *testing.T) string {
	t.Helper()
	sum := sha256.Sum256([]byte(s.read(t, "mounted/ralph")))
	return hex.EncodeToString(sum[:])
}

func (s sandbox) marker(t *testing.T) marker {
	t.Helper()
	info, err := os.Stat(markerPath(s.home))
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o600))
	m, err := readMarker(s.home)
	assert.NilError(t, err)
	return m
}

func (s sandbox) names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.root, dir))
	assert.NilError(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestBootstrapInstallsTheProgram(t *testing.T) {
	s := newSandbox(t)
	s.write(t, "usr/bin/ralph", "another ralph", 0o755)
	s.write(t, "usr/bin/.ralph-1234", "of a killed installation", 0o600)
	s.done(t, "/usr/bin/ralph", true, "v1")
	assert.Assert(t, s.read(t, "usr/bin/ralph") == s.read(t, "mounted/ralph"))
	assert.DeepEqual(t, s.marker(t), marker{"v1", s.hash(t), s.root + "/usr/bin/ralph"})
	assert.DeepEqual(t, s.names(t, "usr/bin"), []string{"ralph", "task"})
	target, err := os.Readlink(s.root + "/usr/bin/task")
	assert.NilError(t, err)
	assert.Equal(t, target, "ralph")

	before, err := os.Stat(s.root + "/usr/bin/ralph")
	assert.NilError(t, err)
	s.done(t, "/usr/bin/ralph", false, "v1")
	for name, content := range map[string]string{
		"an older version": `{"version":"v0","hash":"0","path":"` + s.root + `/usr/bin/ralph"}`,
		"killed":           `{"version`,
	} {
		s.write(t, "home/.ralph/.bootstrapped", content, 0o600)
		s.done(t, "/usr/bin/ralph", true, "v1")
		assert.DeepEqual(t, s.marker(t), marker{"v1", s.hash(t), s.root + "/usr/bin/ralph"})
		after, err := os.Stat(s.root + "/usr/bin/ralph")
		assert.NilError(t, err)
		assert.Assert(t, os.SameFile(before, after), "%s: an identical one is left alone", name)
	}

	s.write(t, "usr/bin/ralph", "broken", 0o755)
	s.done(t, "/usr/bin/ralph", true)
	assert.NilError(t, os.Chmod(s.root+"/usr/bin/ralph", 0o644))
	s.done(t, "/usr/bin/ralph", true)
	assert.NilError(t, os.Remove(s.root+"/usr/bin/ralph"))
	s.done(t, "/usr/bin/ralph", true)
	s.done(t, "/usr/bin/ralph", false)
}

func TestBootstrapKeepsAnUnrelatedTask(t *testing.T) {
	s := newSandbox(t)
	s.write(t, "usr/bin/task", "unrelated", 0o755)
	s.done(t, "/usr/bin/ralph", true)
	assert.Equal(t, s.read(t, "usr/bin/task"), "unrelated")
}

func TestBootstrapWithSudo(t *testing.T) {
	s := newSandbox(t)
	s.sudo(t)
	s.protect(t)
	s.done(t, "/usr/bin/ralph", true)
	assert.Assert(t, s.read(t, "usr/bin/ralph") == s.read(t, "mounted/ralph"))
	info, err := os.Stat(s.root + "/usr/bin/ralph")
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o755))
	assert.DeepEqual(t, s.names(t, "usr/bin"), []string{"ralph", "task"})
	assert.Assert(t, cmp.Contains(s.read(t, "sudo.log"), "install -m 755"))
	s.done(t, "/usr/bin/ralph", false)
}

func TestBootstrapWithoutSudo(t *testing.T) {
	for name, sudo := range map[string]string{"none": "", "one that asks": "#!/bin/sh\necho a password is required >&2\nexit 1\n"} {
		t.Run(name, func(t *testing.T) {
			s := newSandbox(t)
			if sudo != "" {
				s.write(t, "tools/sudo", sudo, 0o755)
			}
			s.protect(t)
			s.done(t, "/home/.local/bin/ralph", true)
			assert.DeepEqual(t, s.names(t, "home/.local/bin"), []string{"ralph", "task"})
			assert.DeepEqual(t, s.names(t, "usr/bin"), []string{})
			s.done(t, "/home/.local/bin/ralph", false)

			assert.NilError(t, os.RemoveAll(s.home+"/.local"))
			s.write(t, "home/.local", "no folder", 0o644)
			stdout, stderr, code := s.bootstrap(t)
			assert.Equal(t, code, 1)
			assert.Equal(t, stdout, "")
			assert.Assert(t, cmp.Contains(stderr, "Error: installing "+s.root+"/usr/bin/ralph"))
			assert.Assert(t, cmp.Contains(stderr, s.home+"/.local"))
			_, err := os.Stat(markerPath(s.home))
			assert.Assert(t, os.IsNotExist(err), "nothing looks finished")
		})
	}
}

// The children of a killed bootstrap keep running and must not break the next one.
func TestBootstrapAfterKill(t *testing.T) {
	s := newSandbox(t)
	s.sudo(t)
	for n := range 25 {
		s.protect(t)
		_ = os.Remove(s.root + "/usr/bin/ralph")
		cmd := s.command(t)
		assert.NilError(t, cmd.Start())
		timer := time.AfterFunc(time.Duration(n)*2*time.Millisecond, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // killed, or faster
		timer.Stop()
		if n%5 == 4 {
			stdout, stderr, code := s.bootstrap(t)
			assert.Equal(t, code, 0, stderr)
			assert.Assert(t, cmp.Contains(stdout, s.root+"/usr/bin/ralph"))
			assert.Assert(t, s.read(t, "usr/bin/ralph") == s.read(t, "mounted/ralph"))
			assert.DeepEqual(t, s.names(t, "usr/bin"), []string{"ralph", "task"})
			assert.DeepEqual(t, s.names(t, "home/.ralph"), []string{".bootstrap.lock", ".bootstrapped"})
		}
	}
}

func TestBootstrapWaitsForChildrenOfAKilledOne(t *testing.T) {
	s := newSandbox(t)
	s.sudo(t)
	log := s.root + "/steps.log"
	s.write(t, "tools/sudo", strings.Replace(s.read(t, "tools/sudo"), `"$@"; code=$?`, "echo begin >>"+log+"; [ -e "+log+".go ] || sleep 0.5\n\"$@\"; code=$?; echo end >>"+log, 1), 0o755)
	sleep, err := exec.LookPath("sleep")
	assert.NilError(t, err)
	assert.NilError(t, os.Symlink(sleep, s.tools+"/sleep"))
	s.protect(t)
	killed := s.command(t)
	assert.NilError(t, killed.Start())
	poll.WaitOn(t, poll.FileExists(log), poll.WithDelay(time.Millisecond))
	assert.NilError(t, killed.Process.Kill())
	assert.Assert(t, killed.Wait() != nil)
	s.write(t, "steps.log.go", "", 0o644)
	s.done(t, "/usr/bin/ralph", true)
	steps := s.read(t, "steps.log")
	assert.Equal(t, steps, strings.Repeat("begin\nend\n", strings.Count(steps, "begin")))
}

func TestBootstrapUsage(t *testing.T) {
	var said bytes.Buffer
	for _, args := range [][]string{nil, {"v1", "x"}} {
		said.Reset()
		assert.Equal(t, Commands(&said)["_bootstrap"](args), 1)
		assert.Equal(t, said.String(), "Error: "+errUsage.Error()+"\n", strings.Join(args, " "))
	}
}

func FuzzParseMarker(f *testing.F) {
	f.Add(`{"version":"v1","hash":"00","path":"/usr/local/bin/ralph"}`)
	f.Add(`{"version":1}`)
	f.Add(``)
	f.Fuzz(func(t *testing.T, content string) {
		m, err := parseMarker([]byte(content))
		assert.Assert(t, err == nil || m == marker{})
	})
}
