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

// Transcribed are the commands whose output is kept here. Loops keep theirs
// themselves.
func Transcribed() []string { return []string{"run", "shell", host.TaskCommand} }

// transcribe keeps what a process prints, as it is. It returns how to end that.
func transcribe(h host.Host, root, command string, p *lifecycle.Process) (end func()) {
	if !slices.Contains(Transcribed(), command) {
		return func() {}
	}
	kept, err := runlog.Keep(root, command, time.Now(), owner(root))
	if err != nil {
		h.Report(fmt.Sprintf("Warning: keeping the output: %v", err))
	}
	p.Stdout, p.Stderr = kept.Tee(p.Stdout), kept.Tee(p.Stderr)
	return kept.Close
}

// owner is whom files in a work tree are given to; nil for who we are.
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
