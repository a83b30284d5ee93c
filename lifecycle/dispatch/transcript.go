package dispatch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/looplog"
)

// Transcribed are the commands whose output is kept here. Loops keep theirs
// themselves.
func Transcribed() []string { return []string{"run", "shell", taskCommand} }

// transcribe keeps what a process prints, as it is. It returns how to end that.
func (h Host) transcribe(root, command string, p *lifecycle.Process) (end func()) {
	if !slices.Contains(Transcribed(), command) {
		return func() {}
	}
	kept, err := looplog.Keep(root, command, time.Now(), owner(root))
	if err != nil {
		h.report(fmt.Sprintf("Warning: what this prints is not kept: %v", err))
	}
	p.Stdout, p.Stderr = kept.Tee(p.Stdout), kept.Tee(p.Stderr)
	return kept.Close
}

// owner is whom files in a work tree are given to; nil for who we are.
func owner(root string) *looplog.Owner {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		return nil
	}
	user, err := invokingUser(root)
	if err != nil {
		return nil // then it is root's
	}
	return &looplog.Owner{UID: user.UID, GID: user.GID}
}

// transcript prints what a command has printed that is no loop.
func transcript(wt gitrepo.Worktree, opts LogOptions, out io.Writer) (err error) {
	if opts.Follow || opts.Iteration > 0 {
		return fmt.Errorf("--follow and --iteration are for loops: %s is none", opts.Command)
	}
	log, err := looplog.LatestTranscript(wt.Root, opts.Command)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("nothing that %q has printed is kept in %s", "docker ralph "+opts.Command, wt.Root)
	}
	if err != nil {
		return fmt.Errorf("looking for what %s has printed: %w", opts.Command, err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	_, err = io.Copy(out, log)
	return err
}
