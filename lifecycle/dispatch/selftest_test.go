package dispatch

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// A program that does not care for the interrupt is ended nevertheless.
func TestInterruptAtEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	signals, stop := interruptAtEnd(ctx)
	defer stop()
	select {
	case sig := <-signals:
		t.Fatalf("there was %s before the end", sig)
	default:
	}
	cancel()
	assert.Equal(t, <-signals, os.Interrupt)
	assert.Equal(t, <-signals, syscall.SIGTERM)
}

// The self-test has a scope of its own, nobody who answers, and one connection.
func TestAlone(t *testing.T) {
	connections := 0
	h := Host{
		Engine:  func() (API, error) { connections++; return nil, nil },
		Confirm: func(context.Context, string) (bool, error) { return true, nil },
		LookupEnv: func(name string) (string, bool) {
			return map[string]string{"RALPH_SCOPE_REPO": "mine", "RALPH_SCOPE_BRANCH": "main", "RALPH_AGENT": "shell"}[name], true
		},
	}.alone()
	for range 2 {
		_, err := h.Engine()
		assert.NilError(t, err)
	}
	assert.Equal(t, connections, 1)
	assert.Assert(t, h.Confirm == nil)
	assert.Equal(t, h.getenv("RALPH_SCOPE_REPO"), "")
	assert.Equal(t, h.getenv("RALPH_SCOPE_BRANCH"), "")
	assert.Equal(t, h.getenv("RALPH_AGENT"), "shell")
}

// Locks and notes of the test's sandbox go, what its driver has forgotten is
// told, and what belongs to other sandboxes stays.
func TestForget(t *testing.T) {
	s := &testSandbox{Host: Host{StateDir: t.TempDir()}, spec: lifecycle.Spec{Name: "ralph-selftest-x-main"}}
	write := func(path ...string) string {
		file := filepath.Join(append([]string{s.StateDir}, path...)...)
		assert.NilError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		assert.NilError(t, os.WriteFile(file, nil, 0o644))
		return file
	}
	gone := []string{
		write("locks", "ralph-selftest-x-main.lock"),
		write("locks", "sbx-ralph-selftest-x-main.keeper"),
		filepath.Dir(write("dispatches", "ralph-selftest-x-main", "ID")),
	}
	stays := []string{
		write("locks", "ralph-owner-repo-main.lock"),
		write("dispatches", "ralph-owner-repo-main", "ID"),
		write("sandboxes", "ralph-owner-repo-main.json"),
	}
	told := []string{write("microvms", "sbx", "ralph-selftest-x-main.json"), write("sandboxes", "ralph-selftest-x-main.json")}

	left, err := s.forget()
	assert.NilError(t, err)
	assert.DeepEqual(t, left, told)
	for _, path := range gone {
		_, err := os.Stat(path)
		assert.Assert(t, os.IsNotExist(err), path)
	}
	for _, path := range append(stays, told...) {
		_, err := os.Stat(path)
		assert.NilError(t, err)
	}
}
