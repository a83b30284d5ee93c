package gitrepo

import (
	"fmt"
	"os/exec"
	"runtime"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/skip"
)

func TestMemoryOfGitIsLimited(t *testing.T) {
	skip.If(t, runtime.GOOS == "windows", "there is no limit")
	cmd := exec.Command("sh", "-c", "ulimit -d; echo $1", "sh", "argument")
	g := Git{}
	g.WithMemoryLimit().Prepare(cmd)
	out, err := cmd.Output()
	assert.NilError(t, err)
	assert.Equal(t, string(out), fmt.Sprintf("%d\nargument\n", MaxMemory>>10))
}
