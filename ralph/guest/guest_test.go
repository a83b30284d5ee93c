package guest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/fs"
	"gotest.tools/v3/poll"
)

// TestMain lets the test binary be the program: as ralph it runs a hidden
// command.
func TestMain(m *testing.M) {
	if name := os.Getenv("GUEST_TEST_COMMAND"); name != "" {
		os.Exit(Commands(os.Stdout, os.Stderr)[name](os.Args[1:]))
	}
	os.Exit(m.Run())
}

func hidden(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "GUEST_TEST_COMMAND="+name)
	return cmd
}

func TestInstallPutsTheRunningProgramInPlace(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // again is fine
		out, err := hidden(t, "_install", dir).CombinedOutput()
		assert.NilError(t, err, string(out))
	}
	own, err := os.ReadFile(os.Args[0])
	assert.NilError(t, err)
	sum := sha256.Sum256(own)
	version := Dir(hex.EncodeToString(sum[:]))

	for _, path := range []string{version + "/ralph", version + "/task", "bin/ralph"} {
		got, err := os.ReadFile(filepath.Join(dir, path))
		assert.NilError(t, err)
		assert.Assert(t, bytes.Equal(got, own), path)
	}
	info, err := os.Stat(filepath.Join(dir, version, "ralph"))
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o755))
	entries, err := os.ReadDir(filepath.Join(dir, version))
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 2, "nothing unfinished is left")
}

func TestInstallReplacesWhatAKilledOneLeft(t *testing.T) {
	dir := fs.NewDir(t, "guest", fs.WithDir("bin", fs.WithSymlink("ralph", "nowhere")))
	out, err := hidden(t, "_install", dir.Path()).CombinedOutput()
	assert.NilError(t, err, string(out))
	_, err = os.Stat(dir.Join("bin", "ralph"))
	assert.NilError(t, err)
}

func TestInitEndsWhenTold(t *testing.T) {
	own := make(chan os.Signal, 1)
	signal.Notify(own, syscall.SIGTERM) // or else an early one would end the test
	defer signal.Stop(own)
	done := make(chan error, 1)
	go func() { done <- runInit(nil) }()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		assert.NilError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
		select {
		case err := <-done:
			assert.NilError(t, err)
			return poll.Success()
		default:
			return poll.Continue("it goes on")
		}
	})
}

func TestFindDispatch(t *testing.T) {
	proc := fs.NewDir(t, "proc",
		fs.WithDir("self"),
		fs.WithDir("1", fs.WithFile("status", "Name:\tralph\nPPid:\t0\n"), fs.WithFile("environ", "HOME=/\x00")),
		fs.WithDir("7", fs.WithFile("status", "Name:\tralph\nPPid:\t0\n"), fs.WithFile("environ", "A=b\x00RALPH_DISPATCH=x1\x00")),
		fs.WithDir("8", fs.WithFile("status", "Name:\tclaude\nPPid:\t7\n"), fs.WithFile("environ", "RALPH_DISPATCH=x1\x00")),
		fs.WithDir("9", fs.WithFile("status", "Name:\tralph\nPPid:\t0\n"), fs.WithFile("environ", "RALPH_DISPATCH=x11\x00")),
		fs.WithDir("10", fs.WithFile("status", "Name:\tsh\nPPid:\t0\n")),
	)
	pid, err := findDispatch(proc.Path(), "x1")
	assert.NilError(t, err)
	assert.Equal(t, pid, 7)
	_, err = findDispatch(proc.Path(), "x")
	assert.Error(t, err, "no process of dispatch x")
}

func TestSignalRefusesNonsense(t *testing.T) {
	for _, args := range [][]string{nil, {"INT"}, {"INT", ""}, {"NONSENSE", "x"}} {
		out, err := hidden(t, "_signal", args...).CombinedOutput()
		assert.Assert(t, err != nil, "%q: %s", args, out)
	}
}

func TestSetEntry(t *testing.T) {
	const root = "root:x:0:0:root:/root:/bin/sh\n"
	for _, tc := range []struct {
		name, before string
		id           int
		entry, after string
	}{
		{"the number has a name", root, 0, "agent:x:0:0::/home/agent:/bin/sh", root},
		{"a new user", root, 1234, "agent:x:1234:1234::/h:/bin/sh", root + "agent:x:1234:1234::/h:/bin/sh\n"},
		{"the image's user is renumbered", root + "agent:x:1000:1000::/home/agent:/bin/bash\nz:x:7:7::/:/bin/sh\n", 501, "agent:x:501:20::/h:/bin/sh", root + "z:x:7:7::/:/bin/sh\nagent:x:501:20::/h:/bin/sh\n"},
		{"no newline at the end", "root:x:0:0:root:/root:/bin/sh", 5, "agent:x:5:5::/h:/bin/sh", root + "agent:x:5:5::/h:/bin/sh\n"},
		{"a number within another", "a:x:15:15::/:/bin/sh\n", 5, "agent:x:5:5::/h:/bin/sh", "a:x:15:15::/:/bin/sh\nagent:x:5:5::/h:/bin/sh\n"},
		{"empty", "", 5, "agent:x:5:", "agent:x:5:\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := fs.NewFile(t, "passwd", fs.WithContent(tc.before))
			assert.NilError(t, setEntry(file.Path(), tc.id, tc.entry))
			after, err := os.ReadFile(file.Path())
			assert.NilError(t, err)
			assert.Equal(t, string(after), tc.after)
		})
	}
}

func TestOwnGivesTheHomeToTheUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away, as in a sandbox")
	}
	home := fs.NewDir(t, "home", fs.WithDir(".config", fs.WithFile("tool", "x")), fs.WithSymlink("link", "/etc/passwd"))
	assert.NilError(t, ownHome(home.Path(), 4321, 8765))
	for _, path := range []string{"", ".config", ".config/tool", "link"} {
		info, err := os.Lstat(home.Join(path))
		assert.NilError(t, err)
		st, ok := info.Sys().(*syscall.Stat_t)
		assert.Assert(t, ok)
		assert.Equal(t, st.Uid, uint32(4321), path)
		assert.Equal(t, st.Gid, uint32(8765), path)
	}
	info, err := os.Stat("/etc/passwd")
	assert.NilError(t, err)
	st, ok := info.Sys().(*syscall.Stat_t)
	assert.Assert(t, ok && st.Uid == 0, "links are not followed")
}

func TestCheckProbe(t *testing.T) {
	head := fs.NewFile(t, "HEAD", fs.WithContent("ref: refs/heads/main\n"))
	sum := sha256.Sum256([]byte("ref: refs/heads/main\n"))
	assert.NilError(t, checkProbe(head.Path(), hex.EncodeToString(sum[:])))
	assert.ErrorContains(t, checkProbe(head.Path(), hex.EncodeToString(make([]byte, 32))), "is not the same file")
	assert.ErrorContains(t, checkProbe(head.Path()+"x", ""), "not visible")
	assert.NilError(t, checkProbe("", ""))
}

func TestCheckSaysWhatIsMissing(t *testing.T) {
	home := t.TempDir()
	out, err := hidden(t, "_check", "--home", home).CombinedOutput()
	assert.NilError(t, err, string(out))
	assert.Equal(t, string(out), "", "nothing for the user who runs the tests")

	out, err = hidden(t, "_check", "--home", filepath.Join(home, "none")).CombinedOutput()
	assert.NilError(t, err, string(out))
	assert.Equal(t, string(out), NeedsHome+"\n")

	out, err = hidden(t, "_check", "--home", home, "--probe", "/no/such/file").CombinedOutput()
	assert.ErrorContains(t, err, "exit status 1")
	assert.Assert(t, bytes.Contains(out, []byte("not visible in the sandbox")), "%s", out)
}

func TestUserArgs(t *testing.T) {
	uid, gid, home, err := userArgs([]string{"1", "2", "/home/agent"})
	assert.NilError(t, err)
	assert.DeepEqual(t, []any{uid, gid, home}, []any{1, 2, "/home/agent"})
	for _, args := range [][]string{nil, {"1", "2"}, {"-1", "2", "/h"}, {"1", "x", "/h"}, {"1", "2", "h"}, {"1", "2", "/h", "3"}} {
		_, _, _, err := userArgs(args)
		assert.Error(t, err, errUsage.Error())
	}
}
