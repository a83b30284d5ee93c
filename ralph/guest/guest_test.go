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

	"github.com/docker-ralph/docker-ralph/wire"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/fs"
	"gotest.tools/v3/poll"
)

// TestMain lets the test binary act as ralph's hidden commands.
func TestMain(m *testing.M) {
	if name := os.Getenv("GUEST_TEST_COMMAND"); name != "" {
		SetUmask() // as ralph does
		commands := Commands(os.Stderr)
		if path := os.Getenv("GUEST_TEST_SHELL_FILE"); path != "" {
			commands["_dispatch"] = dispatchWith(envFile{path, "/bin/bash"})
		}
		if root := os.Getenv("GUEST_TEST_ROOT"); root != "" {
			commands["_bootstrap"] = bootstrapBelow(root)
		}
		os.Exit(commands[name](os.Args[1:]))
	}
	os.Exit(m.Run())
}

func hidden(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "GUEST_TEST_COMMAND="+name)
	return cmd
}

func TestInstallCopiesTheRunningProgram(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // again is fine
		out, err := hidden(t, "_install", dir).CombinedOutput()
		assert.NilError(t, err, string(out))
	}
	own, err := os.ReadFile(os.Args[0])
	assert.NilError(t, err)
	sum := sha256.Sum256(own)
	version := wire.Dir(hex.EncodeToString(sum[:]))

	for _, path := range []string{version + "/ralph", version + "/task", version + "/ralph-sign", version + "/readable/ralph", version + "/readable/task", "bin/ralph"} {
		got, err := os.ReadFile(filepath.Join(dir, path))
		assert.NilError(t, err)
		assert.Assert(t, bytes.Equal(got, own), path)
	}
	info, err := os.Stat(filepath.Join(dir, version, "ralph"))
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o711))
	info, err = os.Stat(filepath.Join(dir, version, "readable", "ralph"))
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), os.FileMode(0o755))
	entries, err := os.ReadDir(filepath.Join(dir, version))
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 4, "nothing unfinished is left")
}

func TestInstallAfterKilledInstallation(t *testing.T) {
	dir := fs.NewDir(t, "guest", fs.WithDir("bin", fs.WithSymlink("ralph", "nowhere")))
	out, err := hidden(t, "_install", dir.Path()).CombinedOutput()
	assert.NilError(t, err, string(out))
	_, err = os.Stat(dir.Join("bin", "ralph"))
	assert.NilError(t, err)
}

func TestInitStopsOnSignal(t *testing.T) {
	own := make(chan os.Signal, 1)
	signal.Notify(own, syscall.SIGTERM) // or else an early one would end the test
	defer signal.Stop(own)
	done := make(chan error, 1)
	go func() { done <- runInit(t.Context(), streams{os.Stdout, os.Stderr}, nil) }()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		assert.NilError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
		select {
		case err := <-done:
			assert.NilError(t, err)
			return poll.Success()
		default:
			return poll.Continue("init is still running")
		}
	})
}

func TestSignalRejectsInvalidArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"INT"}, {"INT", ""}, {"NONSENSE", "x"}} {
		out, err := hidden(t, "_signal", args...).CombinedOutput()
		assert.Assert(t, err != nil, "%q: %s", args, out)
	}
}
