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

// Transcribed returns the commands whose output the host records. Loops record theirs
// themselves.
func Transcribed() []string { return []string{"run", "shell", host.TaskCommand} }

// transcribe records the output of a process until end is called.
func transcribe(h host.Host, root, command string, p *lifecycle.Process) (end func()) {
	if !slices.Contains(Transcribed(), command) {
		return func() {}
	}
	transcript, err := runlog.CreateTranscript(root, command, time.Now(), owner(root))
	if err != nil {
		h.Report(fmt.Sprintf("Warning: recording the output: %v", err))
	}
	p.Stdout, p.Stderr = transcript.Tee(p.Stdout), transcript.Tee(p.Stderr)
	return transcript.Close
}

// owner returns the owner of new files in a worktree; nil for the current user.
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
