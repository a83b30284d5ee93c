package mirror

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// worktree is a directory with logs.
type worktree struct {
	t   *testing.T
	top string
}

func newWorktree(t *testing.T) worktree {
	t.Helper()
	w := worktree{t, t.TempDir()}
	assert.NilError(t, os.MkdirAll(w.path(""), 0o755))
	return w
}

func (w worktree) path(name string) string { return filepath.Join(w.top, ".ralph", "logs", name) }

// write replaces a file as loops replace their state.
func (w worktree) write(name, content string) {
	w.t.Helper()
	assert.NilError(w.t, os.MkdirAll(filepath.Dir(w.path(name)), 0o755))
	assert.NilError(w.t, os.WriteFile(w.path(name)+".tmp", []byte(content), 0o644))
	assert.NilError(w.t, os.Rename(w.path(name)+".tmp", w.path(name)))
}

func (w worktree) append(name, content string) {
	w.t.Helper()
	f, err := os.OpenFile(w.path(name), os.O_WRONLY|os.O_APPEND, 0)
	assert.NilError(w.t, err)
	_, err = f.WriteString(content)
	assert.NilError(w.t, errors.Join(err, f.Close()))
}

func (w worktree) read(name string) string {
	content, err := os.ReadFile(w.path(name))
	if err != nil {
		return "missing"
	}
	return string(content)
}

// apply applies all frames, and returns them.
func (w worktree) apply(frames *bytes.Buffer, s *Sink) (all []Header) {
	w.t.Helper()
	r := bufio.NewReader(frames)
	for {
		h, payload, err := ReadFrame(r)
		if errors.Is(err, io.EOF) {
			return all
		}
		assert.NilError(w.t, err)
		assert.NilError(w.t, s.Apply(h, payload))
		all = append(all, h)
	}
}

func (w worktree) sink() *Sink {
	w.t.Helper()
	s, err := OpenSink(w.top, nil)
	assert.NilError(w.t, err)
	w.t.Cleanup(s.Close)
	return s
}

// sync mirrors once with a new connection.
func (w worktree) sync(from worktree, brought ...string) []Header {
	w.t.Helper()
	sink := w.sink()
	sink.Prune = func(string) bool { return true }
	var frames bytes.Buffer
	assert.NilError(w.t, NewSource(from.top, Hello{Files: sink.Files(), Loops: brought}, &frames).Pass(false, 1))
	return w.apply(&frames, sink)
}

const loop = "20260102-030405-build"

func TestOnlyChangesAreSent(t *testing.T) {
	from, to := newWorktree(t), newWorktree(t)
	from.write(loop+"/loop.json", "{}")
	from.write(loop+"/1.log", "one\n")
	from.write(loop+"/iterations.jsonl", "")
	from.write(loop+"/big.jsonl", strings.Repeat("x", MaxPayload*2+5))
	assert.Assert(t, len(to.sync(from)) > 5)
	for _, name := range []string{loop + "/loop.json", loop + "/1.log", loop + "/iterations.jsonl", loop + "/big.jsonl"} {
		assert.Equal(t, to.read(name), from.read(name), name)
		a, err := os.Stat(from.path(name))
		assert.NilError(t, err)
		b, err := os.Stat(to.path(name))
		assert.NilError(t, err)
		assert.Assert(t, a.ModTime().Equal(b.ModTime()), name)
	}
	ignored, err := os.ReadFile(filepath.Join(to.top, ".ralph", ".gitignore"))
	assert.NilError(t, err)
	assert.Equal(t, string(ignored), "*\n")

	unchanged := to.sync(from)
	assert.Equal(t, len(unchanged), 1)
	assert.Equal(t, unchanged[0], Header{Kind: Synced, Pass: 1})

	from.append(loop+"/1.log", "two\n")
	from.write(loop+"/loop.json", `{"ended":true}`)
	changed := to.sync(from)
	assert.Equal(t, len(changed), 3)
	assert.Equal(t, changed[0].Path, loop+"/1.log")
	assert.Equal(t, changed[0].Size, len("one\ntwo\n"), "what overlaps, and the new line")
	assert.Equal(t, changed[1].Path, loop+"/loop.json", "it tells that the output is complete")
	assert.Equal(t, to.read(loop+"/1.log"), "one\ntwo\n")
	assert.Equal(t, to.read(loop+"/loop.json"), `{"ended":true}`)
}

func TestShorterAndRewrittenFilesAreSentWhole(t *testing.T) {
	from, to := newWorktree(t), newWorktree(t)
	from.write(loop+"/loop.json", "{}")
	for _, name := range []string{"1.log", "2.log", "3.log"} {
		from.write(loop+"/"+name, "before\n")
	}
	to.sync(from)
	from.write(loop+"/1.log", "b\n")
	from.write(loop+"/2.log", "BEFORE\n")
	assert.NilError(t, os.Chtimes(from.path(loop+"/2.log"), time.Time{}, time.Now().Add(time.Hour)))
	from.write(loop+"/3.log", "AFTER, and longer\n")

	sink := to.sink()
	var frames bytes.Buffer
	assert.NilError(t, NewSource(from.top, Hello{Files: sink.Files()}, &frames).Pass(false, 1))
	r, diverged := bufio.NewReader(&frames), ""
	for {
		h, payload, err := ReadFrame(r)
		if errors.Is(err, io.EOF) {
			break
		}
		assert.NilError(t, err)
		if d, ok := errors.AsType[*DivergedError](sink.Apply(h, payload)); ok {
			diverged = d.Path
		}
	}
	assert.Equal(t, diverged, loop+"/3.log")
	has := sink.Files()
	delete(has, diverged) // the next connection asks for the whole file
	assert.NilError(t, NewSource(from.top, Hello{Files: has}, &frames).Pass(false, 1))
	to.apply(&frames, to.sink())
	for _, name := range []string{"1.log", "2.log", "3.log"} {
		assert.Equal(t, to.read(loop+"/"+name), from.read(loop+"/"+name))
	}
}

func TestFollowedChangesAreSentInQuickPasses(t *testing.T) {
	from, to := newWorktree(t), newWorktree(t)
	from.write(loop+"/loop.json", "{}")
	from.write(loop+"/1.log", "one\n")
	var frames bytes.Buffer
	sink := to.sink()
	source := NewSource(from.top, Hello{Follow: true}, &frames)
	assert.NilError(t, source.Pass(false, 1))
	to.apply(&frames, sink)
	assert.NilError(t, source.Pass(true, 0))
	assert.Equal(t, frames.Len(), 0, "nothing is sent without a change")

	from.append(loop+"/1.log", "two\n")
	assert.NilError(t, source.Pass(true, 0))
	sent := to.apply(&frames, sink)
	assert.Equal(t, len(sent), 2)
	assert.Equal(t, sent[0].Size, len("two\n"))
	assert.Equal(t, to.read(loop+"/1.log"), "one\ntwo\n")

	from.write(loop+"/1.log", "restored, and longer\n") // another file, as after an agent has removed it
	assert.NilError(t, source.Pass(true, 0))
	to.apply(&frames, sink)
	assert.Equal(t, to.read(loop+"/1.log"), "restored, and longer\n")

	const second = "20260102-040506-build"
	from.write(second+"/1.log", "x")
	assert.NilError(t, source.Pass(true, 0))
	assert.Equal(t, frames.Len(), 0, "a loop begins with its state")
	from.write(second+"/loop.json", "{}")
	assert.NilError(t, source.Pass(true, 0))
	to.apply(&frames, sink)
	assert.Equal(t, to.read(second+"/1.log"), "x")
}

func TestOnlyPrunedLoopsAreRemoved(t *testing.T) {
	const oldest, middle = "20260101-000000-build", "20260101-010000-build"
	from, to := newWorktree(t), newWorktree(t)
	for _, id := range []string{oldest, middle, loop} {
		from.write(id+"/loop.json", "{}")
	}
	to.write("20250101-000000-build/loop.json", "the host's")
	to.write("20260102-030405.000-shell.log", "the host's")
	to.sync(from)
	assert.NilError(t, os.RemoveAll(from.path(oldest)))
	to.sync(from, oldest, middle, loop)
	assert.Equal(t, to.read(oldest+"/loop.json"), "missing")

	assert.NilError(t, os.RemoveAll(from.path(loop)))
	to.sync(from, middle, loop)
	assert.Equal(t, to.read(loop+"/loop.json"), "{}", "an agent has removed it")
	assert.NilError(t, os.RemoveAll(filepath.Join(from.top, ".ralph")))
	to.sync(from, middle, loop)
	assert.Equal(t, to.read(middle+"/loop.json"), "{}", "an agent has removed it")
	assert.Equal(t, to.read("20250101-000000-build/loop.json"), "the host's")
	assert.Equal(t, to.read("20260102-030405.000-shell.log"), "the host's")
}

// An agent can have created links while it worked in the worktree itself.
func TestLinksAreNotFollowed(t *testing.T) {
	from, to := newWorktree(t), newWorktree(t)
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	assert.NilError(t, os.WriteFile(victim, []byte("safe"), 0o644))
	const second = "20260103-030405-build"
	for _, id := range []string{loop, second} {
		from.write(id+"/loop.json", "{}")
		from.write(id+"/1.log", "one\n")
		from.write(id+"/iterations.jsonl", "")
	}
	assert.NilError(t, os.Symlink(victim, from.path(loop+"/7.log")))
	assert.NilError(t, os.Symlink(outside, to.path(second)))
	to.write(loop+"/x", "")
	for _, name := range []string{"1.log", "loop.json", "loop.json.new", "iterations.jsonl.new"} {
		assert.NilError(t, os.Symlink(victim, to.path(loop+"/"+name)))
	}
	to.sync(from)
	content, err := os.ReadFile(victim)
	assert.NilError(t, err)
	assert.Equal(t, string(content), "safe")
	entries, err := os.ReadDir(outside)
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 1)
	assert.Equal(t, to.read(loop+"/7.log"), "missing")
	for _, id := range []string{loop, second} {
		assert.Equal(t, to.read(id+"/1.log"), "one\n")
		info, err := os.Lstat(to.path(id + "/loop.json"))
		assert.NilError(t, err)
		assert.Assert(t, info.Mode().IsRegular())
	}

	link := t.TempDir()
	assert.NilError(t, os.Symlink(outside, filepath.Join(link, ".ralph")))
	_, err = OpenSink(link, nil)
	assert.ErrorContains(t, err, "not a directory")
}

func TestPushSendsMissingNewestLoops(t *testing.T) {
	from, to := newWorktree(t), newWorktree(t)
	ids := []string{"20260101-000000-build", "20260102-000000-build", "20260103-000000-build"}
	for _, id := range ids {
		from.write(id+"/loop.json", "host")
		from.write(id+"/1.log", "host")
	}
	to.write(ids[2]+"/loop.json", "sandbox")
	to.write(ids[1]+"/1.log", "ho") // of an interrupted push
	sink := to.sink()
	var frames bytes.Buffer
	source := NewSource(from.top, Hello{Files: sink.Files()}, &frames)
	source.Newest = 2
	assert.NilError(t, source.Pass(false, 1))
	has := sink.Complete()
	sink.Accept = func(loop string) bool { return !has[loop] }
	to.apply(&frames, sink)
	assert.Equal(t, to.read(ids[2]+"/loop.json"), "sandbox")
	assert.Equal(t, to.read(ids[1]+"/1.log"), "host")
	assert.Equal(t, to.read(ids[1]+"/loop.json"), "host")
	assert.Equal(t, to.read(ids[0]+"/loop.json"), "missing")
	assert.ErrorContains(t, sink.Apply(Header{Kind: Data, Path: ids[2] + "/loop.json", Replace: true, Last: true}, nil), "unexpected file")
}

func TestInvalidFramesAreRefused(t *testing.T) {
	valid := Header{Kind: Data, Path: loop + "/1.log"}
	var b bytes.Buffer
	assert.NilError(t, WriteFrame(&b, valid, []byte("x")))
	_, _, err := ReadFrame(bufio.NewReader(&b))
	assert.NilError(t, err)
	for _, h := range []Header{
		{},
		{Kind: "other"},
		{Kind: Data, Path: "../x-y/1.log"},
		{Kind: Data, Path: "/etc/1.log"},
		{Kind: Data, Path: loop + "/../1.log"},
		{Kind: Data, Path: loop + "/x/1.log"},
		{Kind: Data, Path: loop + `\1.log`},
		{Kind: Data, Path: loop + "/1.log.new"},
		{Kind: Data, Path: loop + "/config.json", Replace: true},
		{Kind: Data, Path: ".hidden-x/1.log"},
		{Kind: Data, Path: "tasks.db"},
		{Kind: Data, Path: "20260102-030405.000-shell.log"},
		{Kind: Data, Path: loop + "/loop.json"},
		{Kind: Data, Path: loop + "/loop.json", Replace: true, Offset: maxState},
		{Kind: Data, Path: loop + "/1.log", Offset: -1},
		{Kind: Data, Path: loop + "/1.log", Offset: maxFile},
		{Kind: Data, Path: loop + "/1.log", Offset: 1<<63 - 1},
		{Kind: Data, Path: loop + "/1.log", Overlap: 2},
		{Kind: Data, Path: loop + "/1.log", ModTime: -1},
		{Kind: Removed, Path: ".."},
		{Kind: Removed, Path: ""},
		{Kind: Synced, Path: loop},
	} {
		b.Reset()
		assert.NilError(t, WriteFrame(&b, h, []byte("x")[:min(1, len(h.Path))]))
		_, _, err := ReadFrame(bufio.NewReader(&b))
		assert.ErrorContains(t, err, "invalid frame", "%+v", h)
	}
}

// FuzzFrames applies whatever a sandbox sends: nothing changes outside of the logs.
func FuzzFrames(f *testing.F) {
	for _, h := range []Header{
		{Kind: Data, Path: loop + "/1.log", Last: true},
		{Kind: Data, Path: loop + "/loop.json", Replace: true, Last: true},
		{Kind: Removed, Path: loop},
		{Kind: Synced, Pass: 3},
	} {
		var b bytes.Buffer
		payload := []byte(nil)
		if h.Kind == Data {
			payload = []byte("content")
		}
		_ = WriteFrame(&b, h, payload)
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		w := newWorktree(t)
		outside := filepath.Join(w.top, "outside")
		assert.NilError(t, os.Mkdir(outside, 0o755))
		sink, err := OpenSink(w.top, nil)
		assert.NilError(t, err)
		defer sink.Close()
		sink.Prune = func(string) bool { return true }
		r := bufio.NewReader(bytes.NewReader(stream))
		for {
			h, payload, err := ReadFrame(r)
			if err != nil {
				break
			}
			_ = sink.Apply(h, payload)
		}
		entries, err := os.ReadDir(w.top)
		assert.NilError(t, err)
		assert.Equal(t, len(entries), 2)
		entries, err = os.ReadDir(filepath.Join(w.top, ".ralph"))
		assert.NilError(t, err)
		assert.Equal(t, len(entries), 2)
	})
}

// FuzzHello reads whatever a peer claims to have.
func FuzzHello(f *testing.F) {
	f.Add([]byte(`{"follow":true,"files":{"` + loop + `/1.log":{"size":3,"mtime":5},"../x":{}},"loops":["` + loop + `"]}` + "\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		h, err := ReadHello(bufio.NewReader(bytes.NewReader(line)))
		if err != nil {
			return
		}
		for path := range h.Files {
			assert.Assert(t, validPath(path) && filepath.IsLocal(path))
		}
		assert.NilError(t, NewSource(t.TempDir(), h, io.Discard).Pass(false, 1))
	})
}
