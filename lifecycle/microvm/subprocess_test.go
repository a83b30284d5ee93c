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

// subprocessEnv says that this process was started by [inSubprocess].
const subprocessEnv = "MICROVM_TEST_SUBPROCESS"

// inSubprocess lets a test run beside others although it sets variables of the
// environment: it runs it in a process of its own, and tells so. In that
// process it returns false, and the test is to go on.
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
	// A file, because what the test leaves running may hold a pipe open.
	output := filepath.Join(t.TempDir(), "output")
	file, err := os.Create(output)
	assert.NilError(t, err)
	defer func() { _ = file.Close() }()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	// Without the second that the race detector waits for at the end of a process.
	cmd.Env = append(os.Environ(), subprocessEnv+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stdout, cmd.Stderr = file, file
	err = cmd.Run()
	said, readErr := os.ReadFile(output)
	assert.NilError(t, readErr)
	assert.NilError(t, err, "%s", said)
	assert.Assert(t, strings.Contains(string(said), "--- PASS: "+t.Name()+" ("), "it has not run: %s", said)
	return true
}

// parallelUnlessSubprocess lets tests run side by side whose parts are [inSubprocess].
func parallelUnlessSubprocess(t *testing.T) {
	t.Helper()
	if os.Getenv(subprocessEnv) == "" {
		t.Parallel()
	}
}
