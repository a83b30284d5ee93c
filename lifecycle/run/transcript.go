package run

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// Transcribed returns the commands whose output is kept by the host. Loops keep theirs
// themselves.
func Transcribed() []string { return []string{"run", "shell", host.TaskCommand} }

// transcribe keeps the output of a process until end is called.
func transcribe(h host.Host, root, command string, p *lifecycle.Process) (end func()) {
	if !slices.Contains(Transcribed(), command) {
		return func() {}
	}
	kept, err := runlog.CreateTranscript(root, command, time.Now(), owner(root))
	if err != nil {
		h.Report(fmt.Sprintf("Warning: keeping the output: %v", err))
	}
	p.Stdout, p.Stderr = kept.Tee(p.Stdout), kept.Tee(p.Stderr)
	return kept.Close
}

// owner returns the user that files in a worktree are given to; nil for the current one.
func owner(root string) *runlog.Owner {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		return nil
	}
	user, err := host.InvokingUser(root)
	if err != nil {
		return nil // then it is root's
	}
	return &runlog.Owner{UID: user.UID, GID: user.GID}
}
