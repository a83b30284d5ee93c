//go:build unix

package gitrepo

import (
	"fmt"
	"os/exec"
)

// limitMemory bounds the data of a process, where the system does.
func limitMemory(cmd *exec.Cmd) {
	script := fmt.Sprintf(`ulimit -d %d 2>/dev/null; exec "$@"`, MaxMemory>>10)
	cmd.Args = append([]string{"sh", "-c", script, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}
