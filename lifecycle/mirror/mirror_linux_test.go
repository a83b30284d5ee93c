package mirror

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// box is a driver with one sandbox, whose clone is a directory.
type box struct {
	lifecycle.Driver
	clone   string
	hostile string // printed instead of running the program

	mu      sync.Mutex
	execs   int
	output  int64
	running map[*exec.Cmd]bool
}

func (b *box) Exec(ctx context.Context, _ lifecycle.Sandbox, p lifecycle.Process) (int, error) {
	b.mu.Lock()
	b.execs++
	b.mu.Unlock()
	if b.hostile != "" {
		_, err := io.WriteString(p.Stdout, b.hostile)
		return 0, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0], p.Args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.clone, &counter{b, p.Stdout}, p.Stderr
	cmd.Env = append(os.Environ(), asProgram+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	go func() { // as a driver does, Exec does not wait for the input
		_, _ = io.Copy(stdin, p.Stdin)
		_ = stdin.Close()
	}()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	b.mu.Lock()
	b.running[cmd] = true
	b.mu.Unlock()
	err = cmd.Wait()
	b.mu.Lock()
	delete(b.running, cmd)
	b.mu.Unlock()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() >= 0 {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// disconnect kills what runs.
func (b *box) disconnect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for cmd := range b.running {
		_ = cmd.Process.Kill()
	}
}

func (b *box) counts() (execs int, output int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.execs, b.output
}

type counter struct {
	box *box
	to  io.Writer
}

func (c *counter) Write(p []byte) (int, error) {
	c.box.mu.Lock()
	c.box.output += int64(len(p))
	c.box.mu.Unlock()
	return c.to.Write(p)
}

type fixture struct {
	t    *testing.T
	host host.Host
	box  *box
	sb   lifecycle.Sandbox
}

func setup(t *testing.T) fixture {
	t.Helper()
	state := t.TempDir()
	return fixture{
		t: t, host: host.Host{StateDir: state, Stderr: os.Stderr, Debug: func(m string) { t.Log(m) }},
		box: &box{clone: t.TempDir(), running: map[*exec.Cmd]bool{}},
		sb:  lifecycle.Sandbox{Name: "box", ID: "1", Root: t.TempDir(), Clone: true, State: lifecycle.Running},
	}
}

func (f fixture) loop() *runlog.Log {
	f.t.Helper()
	l, err := runlog.Create(f.box.clone, runlog.Loop{Mode: "build", Dispatch: "D", Started: time.Now()})
	assert.NilError(f.t, err)
	return l
}

func (f fixture) sync() {
	f.t.Helper()
	assert.NilError(f.t, Sync(f.t.Context(), f.host, f.box, f.sb))
}

// same reports whether all logs of a loop are the same on both sides.
func (f fixture) same(l *runlog.Log) bool {
	f.t.Helper()
	files, err := os.ReadDir(filepath.Join(f.box.clone, l.Dir()))
	assert.NilError(f.t, err)
	for _, file := range files {
		inside, err := os.ReadFile(filepath.Join(f.box.clone, l.Dir(), file.Name()))
		assert.NilError(f.t, err)
		outside, err := os.ReadFile(filepath.Join(f.sb.Root, l.Dir(), file.Name()))
		if err != nil || string(outside) != string(inside) {
			return false
		}
	}
	return true
}

func TestLogsAreReadInTheWorktree(t *testing.T) {
	f := setup(t)
	l := f.loop()
	_, err := fmt.Fprintln(l.Output(1), "hello")
	assert.NilError(t, err)
	assert.NilError(t, l.Append(runlog.Iteration{N: 1, Outcome: "done"}))
	assert.NilError(t, l.Finish(runlog.LoopEnd{Stop: "complete", Summary: "1 task"}))
	f.sync()
	assert.Assert(t, f.same(l))
	recent := runlog.Recent(f.sb.Root, 5, runlog.Any)
	assert.Equal(t, len(recent), 1)
	assert.Equal(t, recent[0].Summary, "1 task")
	assert.Equal(t, runlog.Runs(f.sb.Root), runlog.Runs(f.box.clone))

	_, before := f.box.counts()
	f.sync()
	_, after := f.box.counts()
	assert.Assert(t, after-before < 100, "%d bytes were sent again", after-before)

	live := lifecycle.Sandbox{Name: "box", Root: f.sb.Root}
	assert.NilError(t, Sync(t.Context(), f.host, nil, live))
	Follow(t.Context(), f.host, nil, live)()
	assert.NilError(t, Push(t.Context(), f.host, nil, live))
}

func TestPrunedLoopsAreRemovedUnlessTheSandboxIsNew(t *testing.T) {
	f := setup(t)
	first, second, third := f.loop(), f.loop(), f.loop()
	f.sync()
	assert.NilError(t, os.RemoveAll(filepath.Join(f.box.clone, first.Dir())))
	f.sync()
	assert.Assert(t, host.Missing(filepath.Join(f.sb.Root, first.Dir())))
	f.sb.ID = "2"
	assert.NilError(t, os.RemoveAll(filepath.Join(f.box.clone, second.Dir())))
	f.sync()
	assert.Assert(t, !host.Missing(filepath.Join(f.sb.Root, second.Dir())))
	assert.Assert(t, f.same(third))
}

// The logs of earlier sandboxes, which no sandbox prunes, stay within the limits of a worktree.
func TestLogsOfEarlierSandboxesArePruned(t *testing.T) {
	f := setup(t)
	oldest, err := runlog.Create(f.sb.Root, runlog.Loop{Mode: "build", Started: time.Now().Add(-time.Hour)})
	assert.NilError(t, err)
	assert.NilError(t, oldest.Finish(runlog.LoopEnd{Stop: "complete"}))
	for range 49 {
		assert.NilError(t, f.loop().Finish(runlog.LoopEnd{Stop: "complete"}))
	}
	f.sync()
	assert.Assert(t, !host.Missing(filepath.Join(f.sb.Root, oldest.Dir())))
	l := f.loop()
	f.sync()
	assert.Assert(t, host.Missing(filepath.Join(f.sb.Root, oldest.Dir())))
	assert.Assert(t, f.same(l))
}

func TestFollowStreamsAndReconnects(t *testing.T) {
	f := setup(t)
	stop := Follow(t.Context(), f.host, f.box, f.sb)
	defer stop()
	l := f.loop()
	out := l.Output(1)
	awaitSame := func() {
		t.Helper()
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			if f.same(l) {
				return poll.Success()
			}
			return poll.Continue("the logs differ")
		}, poll.WithDelay(10*time.Millisecond), poll.WithTimeout(20*time.Second))
	}
	for n := range 500 {
		_, _ = fmt.Fprintln(out, "line", n)
	}
	awaitSame()
	execs, _ := f.box.counts()
	assert.Equal(t, execs, 1, "one stream for all lines")

	// Other processes neither write nor wait meanwhile.
	began := time.Now()
	complete, err := Copy(t.Context(), f.host, f.box, f.sb)
	assert.NilError(t, err)
	assert.Assert(t, !complete)
	other := Follow(t.Context(), f.host, f.box, f.sb)
	assert.Assert(t, time.Since(began) < time.Second)
	execs, _ = f.box.counts()
	assert.Equal(t, execs, 1)

	f.box.disconnect()
	for n := range 100 {
		_, _ = fmt.Fprintln(out, "more", n)
	}
	awaitSame()

	_, _ = fmt.Fprintln(out, "last")
	assert.NilError(t, l.Finish(runlog.LoopEnd{Stop: "complete"}))
	other()
	assert.Assert(t, f.same(l), "stopped, if another process follows")
	stop()
	assert.Assert(t, f.same(l))
	complete, err = Copy(t.Context(), f.host, f.box, f.sb)
	assert.NilError(t, err)
	assert.Assert(t, complete)
	f.box.mu.Lock()
	defer f.box.mu.Unlock()
	assert.Equal(t, len(f.box.running), 0)
}

func TestStopCopiesTheRestWithoutAConnection(t *testing.T) {
	f := setup(t)
	l := f.loop()
	stop := Follow(t.Context(), f.host, f.box, f.sb)
	out := l.Output(1)
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if f.same(l) {
			return poll.Success()
		}
		return poll.Continue("the logs differ")
	}, poll.WithDelay(10*time.Millisecond))
	f.box.disconnect()
	_, _ = fmt.Fprintln(out, "last")
	stop()
	assert.Assert(t, f.same(l))
}

// A sandbox is only removed after its logs were copied, by whichever process.
func TestFinishCopiesTheRest(t *testing.T) {
	f := setup(t)
	l := f.loop()
	out := l.Output(1)
	stop := Follow(t.Context(), f.host, f.box, f.sb)
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if f.same(l) {
			return poll.Success()
		}
		return poll.Continue("the logs differ")
	}, poll.WithDelay(10*time.Millisecond))
	_, _ = fmt.Fprintln(out, "by the follower")
	assert.NilError(t, Finish(t.Context(), f.host, f.box, f.sb))
	assert.Assert(t, f.same(l))
	stop()
	_, _ = fmt.Fprintln(out, "by itself")
	assert.NilError(t, Finish(t.Context(), f.host, f.box, f.sb))
	assert.Assert(t, f.same(l))

	logs := newLogs(f.host, f.box, f.sb)
	unlock, err := logs.tryLock()
	assert.NilError(t, err)
	defer unlock()
	assert.ErrorContains(t, logs.finish(t.Context(), time.Now(), time.Now()), "another process is copying the logs")
}

func TestStopIsBoundedIfTheSandboxIsGone(t *testing.T) {
	f := setup(t)
	f.box.clone = filepath.Join(f.box.clone, "gone")
	stop := Follow(t.Context(), f.host, f.box, f.sb)
	began := time.Now()
	stop()
	assert.Assert(t, time.Since(began) < lastTimeout+time.Second)
	assert.ErrorContains(t, Sync(t.Context(), f.host, f.box, f.sb), "copying the logs of the sandbox box")
}

func TestPushedLoopsAreMirroredBack(t *testing.T) {
	f := setup(t)
	var all []*runlog.Log
	for n := range pushedLoops + 2 {
		l, err := runlog.Create(f.sb.Root, runlog.Loop{Mode: "build", Started: time.Now().Add(time.Duration(n) * time.Second)})
		assert.NilError(t, err)
		_, _ = fmt.Fprintln(l.Output(1), strings.Repeat("x", 3<<20))
		all = append(all, l)
	}
	assert.NilError(t, Push(t.Context(), f.host, f.box, f.sb))
	for i, l := range all {
		assert.Equal(t, host.Missing(filepath.Join(f.box.clone, l.Dir())), i < 2)
	}
	newest := all[len(all)-1]
	assert.Assert(t, f.same(newest))
	_, before := f.box.counts()
	f.sync()
	_, after := f.box.counts()
	assert.Assert(t, after-before < 100, "%d bytes were sent again", after-before)

	resumed, _, err := runlog.Resume(f.box.clone, runlog.Loop{Mode: "build", Started: time.Now()}, func(string) bool { return false })
	assert.NilError(t, err)
	_, _ = fmt.Fprintln(resumed.Output(2), "resumed")
	assert.NilError(t, Push(t.Context(), f.host, f.box, f.sb))
	f.sync()
	assert.Assert(t, f.same(newest))
	assert.NilError(t, os.RemoveAll(filepath.Join(f.box.clone, all[2].Dir())))
	f.sync()
	assert.Assert(t, !host.Missing(filepath.Join(f.sb.Root, all[2].Dir())), "it is the worktree's")
}

func TestHostileSandboxes(t *testing.T) {
	frame := func(header string) string {
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(header)))) + header
	}
	for _, output := range []string{
		"garbage, and more than four bytes",
		frame(`{"kind":"data","path":"../../x","last":true}`),
		frame(`{"kind":"data","path":"a-b/1.log","size":5}`),
		frame(`{"kind":"data","path":"a-b/1.log","offset":7,"last":true}`),
		frame(`{}`),
		"\x7f\xff\xff\xff",
	} {
		f := setup(t)
		f.box.hostile = output
		assert.ErrorContains(t, Sync(t.Context(), f.host, f.box, f.sb), "copying the logs", "%q", output)
	}
}
