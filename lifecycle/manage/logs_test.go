package manage

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/scopes"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// loopLog writes the log of a loop that has ended.
func loopLog(t *testing.T, logs, dispatch, output string, code int) {
	t.Helper()
	log, err := runlog.Create(logs, runlog.Loop{Mode: "build", Dispatch: dispatch, Started: time.Now()})
	assert.NilError(t, err)
	_, err = log.Output(0).Write([]byte(output))
	assert.NilError(t, err)
	assert.NilError(t, log.Finish(runlog.LoopEnd{Stop: "complete", ExitCode: code}))
}

// A loop has begun, but its log is not there yet, only an earlier one.
func TestLogOfARunningLoopIsAwaited(t *testing.T) {
	type result struct {
		code int
		err  error
	}
	begin := func(t *testing.T) (host.Host, gitrepo.Worktree, *host.HeldRecord) {
		h := host.Host{StateDir: t.TempDir(), Stderr: &bytes.Buffer{}}
		wt := gitrepo.Worktree{Root: t.TempDir(), Scope: gitrepo.Scope{Repo: "r", Branch: "main"}}
		loopLog(t, h.LogsDir("ralph-a"), "earlier", "from before\n", 0)
		record, err := h.NewRecord(host.Record{ID: "x", Command: []string{"ralph", "build"}, Scope: wt.Scope, Root: wt.Root, Sandbox: "ralph-a"})
		assert.NilError(t, err)
		return h, wt, record
	}
	t.Run("logs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, wt, record := begin(t)
			var out bytes.Buffer
			ended := make(chan result, 1)
			go func() {
				reading := logReading{out: &out, kind: runlog.Rendered}
				code, err := LoopLog{Follow: true}.show(t.Context(), h, wt, "ralph-a", reading.show)
				ended <- result{code, err}
			}()
			synctest.Wait()
			assert.Equal(t, len(ended), 0, out.String())
			loopLog(t, h.LogsDir("ralph-a"), "x", "hello\n", 3)
			record.Done(nil)
			assert.Equal(t, <-ended, result{3, nil})
			assert.Equal(t, out.String(), "hello\n")
		})
	})
	t.Run("attach", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, wt, record := begin(t)
			assert.NilError(t, record.Detach(""))
			n, err := detached(t.Context(), h, "ralph-a", wt)
			assert.NilError(t, err)
			opened := make(chan error, 1)
			var from output
			go func() {
				var err error
				from, err = outputOf(t.Context(), newFollower(h, "ralph-a", n.ID), n)
				opened <- err
			}()
			synctest.Wait()
			assert.Equal(t, len(opened), 0)
			loopLog(t, h.LogsDir("ralph-a"), "x", "hello\n", 0)
			assert.NilError(t, <-opened)
			defer from.Close()
			record.Done(nil)
			var out bytes.Buffer
			assert.NilError(t, from.Copy(&out))
			assert.Equal(t, out.String(), "hello\n")
		})
	})
	t.Run("no log", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, wt, record := begin(t)
			ended := make(chan error, 1)
			go func() {
				_, err := LoopLog{Follow: true}.show(t.Context(), h, wt, "ralph-a", nil)
				ended <- err
			}()
			synctest.Wait()
			assert.NilError(t, h.SaveEnd("ralph-a", host.End{ID: "x", ExitCode: 1}))
			record.Done(nil)
			assert.ErrorContains(t, <-ended, `"ralph build" has ended without a log`)
		})
	})
}

// A rebase detaches HEAD. The loop that the user asks for is that of the branch with a sandbox.
func TestLogsOnADetachedHead(t *testing.T) {
	h, _ := treeHost(t)
	var out bytes.Buffer
	h.Stdout = &out
	wt, err := gitrepo.Detect(t.Context(), h.Dir, h.Getenv)
	assert.NilError(t, err)
	name, err := h.SandboxName(wt)
	assert.NilError(t, err)
	loopLog(t, h.LogsDir(name), "x", "hello\n", 0)
	gitTree(t, h.Dir, "checkout", "-q", "--detach")
	_, err = Logs(t.Context(), h, LogOptions{})
	assert.ErrorIs(t, err, gitrepo.ErrDetached)

	assert.NilError(t, h.SaveOwner("ralph-a", host.OwnerOf(wt)))
	other := wt
	other.Root = t.TempDir()
	assert.NilError(t, h.SaveOwner("ralph-b", host.OwnerOf(other)))
	_, err = Logs(t.Context(), h, LogOptions{})
	assert.NilError(t, err)
	assert.Equal(t, out.String(), "hello\n")

	wt.Scope.Branch = "topic"
	assert.NilError(t, h.SaveOwner("ralph-c", host.OwnerOf(wt)))
	_, err = Logs(t.Context(), h, LogOptions{})
	assert.Check(t, is.ErrorContains(err, "several branches have had sandboxes in "+wt.Root+": main, topic"))
	_, err = located(t.Context(), h, nil)
	assert.Check(t, is.ErrorContains(err, "detached HEAD state, and several branches"))
}

func TestRenamedBranchNamesItsClone(t *testing.T) {
	h, stderr := treeHost(t)
	gitTree(t, h.Dir, "branch", "-m", "topic")
	wt, err := gitrepo.Detect(t.Context(), h.Dir, h.Getenv)
	assert.NilError(t, err)
	for name, was := range map[string]string{"ralph-main": "main", "ralph-topic": "topic", "ralph-other": "other"} {
		assert.NilError(t, h.SaveOwner(name, host.Owner{Scope: gitrepo.Scope{Repo: wt.Scope.Repo, Branch: was}, Root: wt.Root}))
		state := scopes.Path(h.StateDir, name, "git", "state.json")
		assert.NilError(t, os.MkdirAll(filepath.Dir(state), 0o700))
		assert.NilError(t, os.WriteFile(state, []byte(`{"clone":true}`), 0o600))
	}
	reportRenamed(h, wt)
	assert.Equal(t, stderr.String(), "Warning: the clone ralph-main is of acme/shop, branch main, which is acme/shop, branch topic, now\n"+
		"Hint: see its loop with \"docker ralph logs ralph-main\", or remove it with \"docker ralph clean ralph-main\"\n")
	assert.NilError(t, os.Remove(scopes.Path(h.StateDir, "ralph-main", "git", "state.json")))
	stderr.Reset()
	reportRenamed(h, wt)
	assert.Equal(t, stderr.String(), "")
}

// A loop decides in its sandbox how it has ended. It is not complete while the user's branch lacks its commits.
func TestEndOfALoopWithUnmergedCommits(t *testing.T) {
	root, git := userRepo(t)
	h := repoHost(t, root)
	var out bytes.Buffer
	h.Stdout = &out
	const name = "ralph-acme-shop-main"
	wt, err := gitrepo.Detect(t.Context(), root, h.Getenv)
	assert.NilError(t, err)
	assert.NilError(t, h.SaveOwner(name, host.OwnerOf(wt)))
	var ids []string
	for i := range 2 {
		log, err := runlog.Create(h.LogsDir(name), runlog.Loop{Mode: "build", Branch: "main", Started: time.Now().Add(time.Duration(i) * time.Minute)})
		assert.NilError(t, err)
		assert.NilError(t, log.Finish(runlog.LoopEnd{Stop: "complete", Summary: "Total"}))
		ids = append(ids, log.Loop.ID)
	}
	lacks := git("commit-tree", "-m", "the agent's", "-p", "HEAD", "HEAD^{tree}")
	state := scopes.Path(h.StateDir, name, "git", "state.json")
	assert.NilError(t, os.MkdirAll(filepath.Dir(state), 0o700))
	assert.NilError(t, os.WriteFile(state, []byte(`{"unmerged":{"branch":"main","commit":"`+lacks+`","why":"both have moved"}}`), 0o600))

	ends := func(loop string) (string, string) {
		t.Helper()
		out.Reset()
		_, err := Events(t.Context(), h, EventOptions{LoopLog{Loop: loop}})
		assert.NilError(t, err)
		loops, err := Loops(t.Context(), h, false)
		assert.NilError(t, err)
		return out.String(), loops[0].Stop + "," + loops[1].Stop
	}
	printed, listed := ends("")
	assert.Check(t, is.Contains(printed, `"type":"loop.end","stop":"unmerged","exit_code":14,"error":"both have moved","summary":"Total"}`))
	assert.Equal(t, listed, "unmerged,complete")
	printed, _ = ends(ids[0])
	assert.Check(t, is.Contains(printed, `"stop":"complete","exit_code":0`))
	git("merge", "-q", "--ff-only", lacks)
	printed, listed = ends("")
	assert.Check(t, is.Contains(printed, `"stop":"complete","exit_code":0`))
	assert.Equal(t, listed, "complete,complete")
}

func TestCutEnd(t *testing.T) {
	const start, end = `{"time":"2031-02-03T04:05:06Z","type":"run.start","n":1}` + "\n", `{"time":"2031-02-03T04:05:06Z","type":"loop.end","stop":"complete","exit_code":0}` + "\n"
	for _, tc := range []struct{ before, end string }{{"", ""}, {start, ""}, {"", end}, {start, end}, {end + start, ""}, {"no JSON\n", ""}} {
		before, cut := cutEnd([]byte(tc.before + tc.end))
		assert.Equal(t, string(before), tc.before)
		assert.Equal(t, string(cut), tc.end)
	}
}

// Bytes that are no UTF-8 are control characters to some terminals.
func TestPrintedEventsAreSafe(t *testing.T) {
	var out bytes.Buffer
	assert.NilError(t, printEvents(&out, []byte("{\"a\":\"\x9b31m\u009bx\"}\nno JSON \x1b\n{}\n")))
	assert.Equal(t, out.String(), "{\"a\":\"\ufffd31m\\u009bx\"}\n{}\n")
}

func TestTailAndSince(t *testing.T) {
	logs := t.TempDir()
	log, err := runlog.Create(logs, runlog.Loop{Mode: "build", Started: time.Now()})
	assert.NilError(t, err)
	out := log.Output(0)
	for n, text := range []string{"banner\n", "one\n1\n", "two\n2\n", "three\n3"} {
		if n > 0 {
			log.Begin(n)
		}
		_, _ = out.Write([]byte(text))
		if n > 0 && n < 3 {
			assert.NilError(t, log.Append(runlog.Iteration{N: n, Started: time.Now().Add(time.Duration(n-4) * time.Hour), Seconds: 60}))
		}
	}
	defer log.Close()
	lines := func(n int) *int { return &n }
	for _, tc := range []struct {
		opts LogOptions
		want string
	}{
		{LogOptions{}, "banner\none\n1\ntwo\n2\nthree\n3"},
		{LogOptions{Tail: lines(3)}, "2\nthree\n3"},
		{LogOptions{Tail: lines(0)}, ""},
		{LogOptions{Tail: lines(99)}, "banner\none\n1\ntwo\n2\nthree\n3"},
		{LogOptions{Tail: lines(1), Iteration: 1}, "1\n"},
		{LogOptions{Since: time.Now().Add(-150 * time.Minute)}, "two\n2\nthree\n3"},
		{LogOptions{Since: time.Now()}, "three\n3"},
		{LogOptions{Since: time.Now().Add(-9 * time.Hour), Tail: lines(1)}, "3"},
	} {
		var got bytes.Buffer
		r, err := runlog.Find(logs, runlog.Any)
		assert.NilError(t, err)
		reading := logReading{opts: tc.opts, out: &got, kind: runlog.Rendered}
		assert.NilError(t, reading.show(r, true))
		assert.NilError(t, reading.show(r, true)) // adds nothing
		r.Close()
		assert.Check(t, is.Equal(got.String(), tc.want))
	}
}
