//go:build unix

package microvm_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// subprocessEnv is set in processes that [inSubprocess] starts.
const subprocessEnv = "MICROVM_TEST_SUBPROCESS"

// inSubprocess runs a test that sets environment variables in a process of its own, parallel
// to others, and returns true. In that process it returns false, and the test continues.
func inSubprocess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(subprocessEnv) != "" {
		return false
	}
	t.Parallel()
	name := "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
	args := []string{"-test.v", "-test.paniconexit0", "-test.parallel=3", "-test.run=" + name}
	if deadline, ok := t.Deadline(); ok {
		args = append(args, fmt.Sprint("-test.timeout=", time.Until(deadline).Round(time.Second)))
	}
	// A file, because processes that outlive the test would hold a pipe open.
	output := filepath.Join(t.TempDir(), "output")
	file, err := os.Create(output)
	assert.NilError(t, err)
	defer func() { _ = file.Close() }()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	// The race detector would wait for a second at the end of the process.
	cmd.Env = append(os.Environ(), subprocessEnv+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stdout, cmd.Stderr = file, file
	err = cmd.Run()
	said, readErr := os.ReadFile(output)
	assert.NilError(t, readErr)
	assert.NilError(t, err, "%s", said)
	assert.Assert(t, strings.Contains(string(said), "--- PASS: "+t.Name()+" ("), "the test has not run: %s", said)
	return true
}

// parallelUnlessSubprocess runs tests in parallel whose parts call [inSubprocess].
func parallelUnlessSubprocess(t *testing.T) {
	t.Helper()
	if os.Getenv(subprocessEnv) == "" {
		t.Parallel()
	}
}
