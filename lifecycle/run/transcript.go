package run

import (
	"fmt"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// Transcribed returns the commands whose output the host records. Loops record theirs
// themselves.
func Transcribed() []string { return []string{host.RunCommand, host.ShellCommand} }

// transcribe records the output of a process in a directory of logs until end is called.
func transcribe(h host.Host, logs, command string, p *lifecycle.Process) (end func()) {
	if !slices.Contains(Transcribed(), command) {
		return func() {}
	}
	transcript, err := runlog.CreateTranscript(logs, command, time.Now())
	if err != nil {
		h.Warn(fmt.Errorf("recording the output: %w", err))
	}
	p.Stdout, p.Stderr = transcript.Tee(p.Stdout), transcript.Tee(p.Stderr)
	return transcript.Close
}
