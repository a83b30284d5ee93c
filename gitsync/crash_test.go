package gitsync

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitsync/index"
)

// childEnv is the directory of the fixture, set in the process that is killed.
const childEnv = "GITSYNC_TEST_WORLD"

// TestSyncChild is the process that is killed.
func TestSyncChild(t *testing.T) {
	dir := os.Getenv(childEnv)
	if dir == "" {
		return // not started by another test
	}
	w := fixtureIn(t, dir).openRepo()
	w.repo.git.Program = filepath.Join(dir, "git-that-kills")
	if os.Getenv("GITSYNC_TEST_PUSH") != "" {
		w.push()
		return
	}
	w.fetch()
}

// killAt installs a git that kills its caller at its nth call, before or after its work.
func (w *fixture) killAt(n int, after bool) {
	w.t.Helper()
	git, err := exec.LookPath("git")
	assert.NilError(w.t, err)
	work := ""
	if after {
		work = git + ` "$@" >/dev/null 2>&1; `
	}
	count := filepath.Join(w.dir, "count")
	script := fmt.Sprintf("#!/bin/sh\nn=$(cat %[1]s 2>/dev/null || echo 0)\nn=$((n+1))\necho $n >%[1]s\nif [ $n = %[2]d ]; then %[3]s kill -9 $PPID; exit 1; fi\nexec %[4]s \"$@\"\n", count, n, work, git)
	writeProgram(w.t, filepath.Join(w.dir, "git-that-kills"), script)
	_ = os.Remove(count)
}

// syncInChild syncs in another process, and reports whether it was not killed.
func (w *fixture) syncInChild(env ...string) bool {
	cmd := exec.Command(os.Args[0], "-test.run=^TestSyncChild$")
	cmd.Env = append(w.env(), append(env, childEnv+"="+w.dir, "GORACE=atexit_sleep_ms=0")...)
	out, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(err.Error(), "killed") {
		w.t.Fatalf("%v: %s", err, out)
	}
	return err == nil
}

// countGitCalls counts the git processes of a sync that is not killed.
func (w *fixture) countGitCalls(env ...string) int {
	w.t.Helper()
	w.killAt(0, false)
	assert.Assert(w.t, w.syncInChild(env...))
	count, err := os.ReadFile(filepath.Join(w.dir, "count"))
	assert.NilError(w.t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(count)))
	assert.NilError(w.t, err)
	assert.Assert(w.t, n > 3, "only %d calls", n)
	return n
}

func TestKilledFetchLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	t.Parallel()
	base := newRepo(t)
	base.write("staged.txt", "staged\n")
	base.git("add", "staged.txt")
	base.createSandbox()
	base.commit("a.txt", "one\n")
	tip := base.commit("new.txt", "two\n")
	for n := range base.clone(t).countGitCalls() {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("call %d, after %t", n+1, after), func(t *testing.T) {
				t.Parallel()
				w := base.clone(t).openRepo()
				w.killAt(n+1, after)
				assert.Assert(t, !w.syncInChild())
				w.fetch() // the next command
				assert.Equal(t, w.tip("main"), tip)
				assert.Equal(t, w.git("status", "--porcelain"), "A  staged.txt")
				assert.Equal(t, w.git("show", ":a.txt"), "one")
				left, err := filepath.Glob(filepath.Join(w.root, ".git", "index?*"))
				assert.NilError(t, err)
				assert.Equal(t, len(left), 0, "%q", left)
			})
		}
	}
}

func TestKilledPushIsCompleted(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	t.Parallel()
	base := newSandbox(t)
	base.write("b.txt", "user's\n")
	base.git("commit", "-q", "-m", "user", "b.txt")
	const in = "GITSYNC_TEST_PUSH=1"
	for n := range base.clone(t).countGitCalls(in) {
		t.Run(fmt.Sprintf("call %d", n+1), func(t *testing.T) {
			t.Parallel()
			w := base.clone(t).openRepo()
			w.killAt(n+1, n%2 == 1)
			assert.Assert(t, !w.syncInChild(in))
			w.push()
			assert.Equal(t, w.sandboxGit("rev-parse", "main"), w.tip("main"))
			assert.Equal(t, w.sandboxGit("status", "--porcelain"), "")
			w.commit("c.txt", "agent's\n")
			assert.Equal(t, w.fetch().Commits, 1)
			w.assertClean()
		})
	}
}

// A sync waits for another git's lock, and keeps it.
func TestIndexLockOfAnotherGitIsKept(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.commit("a.txt", "one\n")
	lock := filepath.Join(w.root, ".git", "index.lock")
	assert.NilError(t, os.WriteFile(lock, nil, 0o644))
	c := fetchConflict(t, w, indexLocked)
	assert.Assert(t, c.Transient())
	assert.Assert(t, is.Contains(c.Hint(), "remove that file"))
	_, err := os.Stat(lock)
	assert.NilError(t, err)
	assert.NilError(t, os.Remove(lock))
	assert.Equal(t, w.fetch().Commits, 1)
	w.assertClean()
}

func TestUserCommitDuringFetch(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.write("b.txt", "the agent's too\n")
	w.commit("b.txt", "the agent's too\n")
	w.commit("a.txt", "one\n")
	git, err := exec.LookPath("git")
	assert.NilError(t, err)
	once := filepath.Join(w.dir, "once")
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *diff-tree*) mkdir %s 2>/dev/null && env -i PATH=\"$PATH\" %s -C %s -c user.name=u -c user.email=u@u commit -q --allow-empty -m user;; esac\nexec %s \"$@\"\n", once, git, w.root, git)
	w.repo.git.Program = filepath.Join(w.dir, "git-and-user")
	writeProgram(t, w.repo.git.Program, script)
	res := w.fetch()
	assert.Assert(t, res.Conflict != nil && res.Conflict.Kind == diverged, "%+v", res)
	assert.Equal(t, w.git("log", "-1", "--format=%s"), "user")
	assert.Equal(t, w.git("status", "--porcelain"), " M b.txt")
	assert.Equal(t, w.read("a.txt"), "a\n")
	assert.Assert(t, res.Conflict.Merged != "")
}

func TestConcurrentFetches(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	tip := w.commit("a.txt", "one\n")
	results := make(chan int, 4)
	for range cap(results) {
		go func() {
			res, err := w.repo.Fetch(t.Context(), w.sh, true)
			if err != nil {
				res.Commits = -1
			}
			results <- res.Commits
		}()
	}
	sum := 0
	for range cap(results) {
		sum += <-results
	}
	assert.Equal(t, sum, 1)
	assert.Equal(t, w.tip("main"), tip)
	w.assertClean()
}

// interrupt makes the state that of a fast-forward to the sandbox's branch that was killed while it
// wrote files.
func (w *fixture) interrupt() {
	w.t.Helper()
	_, _, err := w.repo.Follow(w.t.Context(), w.sh, "") // fetches only
	assert.NilError(w.t, err)
	st, err := w.repo.readState()
	assert.NilError(w.t, err)
	st.Pending = &pending{From: w.tip("main"), To: w.sandboxGit("rev-parse", "main"), Token: index.NewToken(), Writing: true}
	assert.NilError(w.t, w.repo.save(st))
	assert.NilError(w.t, index.New(w.repo.git, st.Pending.Token).Begin())
}

// A fast-forward that was interrupted while it wrote files is completed, and what the user has
// changed is kept.
func TestInterruptedFastForward(t *testing.T) {
	t.Parallel()
	const crlf = "echo '*.txt eol=crlf' > .gitattributes; git add .gitattributes; git commit -qm attributes; rm *.txt; git checkout -q ."
	for _, tc := range []struct {
		name        string
		agent, left string // left is what was written, and what the user has done
		inTheWay    string // empty if the branch arrives
		setUp       string // before the sandbox is made
	}{
		{"whole files", "echo agent > a.txt; echo new > new.txt; git rm -q b.txt; mkdir deep; echo x > deep/x", "echo agent > a.txt; rm b.txt; mkdir deep; echo x > deep/x", "", ""},
		{"a file that became a directory", "rm a.txt; mkdir a.txt; echo x > a.txt/x; echo y > a.txt/y", "rm a.txt; mkdir a.txt; echo x > a.txt/x", "", ""},
		{"a directory that became a file", "rm -r dir; echo x > dir; echo y > z", "rm -r dir; echo x > dir", "", ""},
		{"part of a changed file", "seq 9 > a.txt", "seq 3 > a.txt", "", ""},
		{"part of a new file", "mkdir new; seq 9 > new/file", "mkdir new; seq 3 > new/file", "", ""},
		{"an empty file", "seq 9 > a.txt; seq 9 > new", ": > a.txt; : > new", "", ""},
		{"part of a large file", "seq 100000 > a.txt", "seq 100000 | head -c 300000 > a.txt", "", ""},
		{"a file that begins with the old one", "seq 9 >> a.txt; seq 9 >> b.txt", ": > b.txt", "", ""},
		{"part of a file in a directory that was a file", "rm a.txt; mkdir a.txt; seq 9 > a.txt/x", "rm a.txt; mkdir a.txt; seq 3 > a.txt/x", "", ""},
		{"empty directories that were a file", "rm a.txt; mkdir -p a.txt/in/deep; seq 9 > a.txt/in/deep/x; seq 9 > z", "rm a.txt; mkdir -p a.txt/in", "", ""},
		{"part of a file that was a directory", "rm -r dir; seq 9 > dir", "rm -r dir; seq 3 > dir", "", ""},
		{"a changed file of the user", "seq 9 > a.txt; seq 9 > b.txt", "echo mine > a.txt; seq 3 > b.txt", "a.txt", ""},
		{"a changed file that ends like the new one", "seq 9 > a.txt", "echo mine > a.txt; seq 9 >> a.txt", "a.txt", ""},
		{"a new file with more", "seq 9 > new", "seq 10 > new", "new", ""},
		{"a staged file", "seq 9 > a.txt", "seq 3 > a.txt; rm .git/index.lock; git add a.txt", "a.txt", ""},
		{"a removed file", "git rm -q a.txt", ": > a.txt", "a.txt", ""},
		{"a link", "seq 9 > a.txt", "seq 3 > b.txt; ln -sf b.txt a.txt", "a.txt", ""},
		{"whole files with other line ends", "seq 9 > a.txt; seq 9 > new.txt; seq 9 > b.txt", "seq 9 | sed 's/$/\\r/' > a.txt; cp a.txt new.txt", "", crlf},
		{"parts of files with other line ends", "seq 9 > a.txt; seq 9 > new.txt; seq 9 > b.txt", "seq 9 | sed 's/$/\\r/' | head -c 7 > a.txt; cp a.txt new.txt", "", crlf},
		{"attributes of the same commits", "seq 9 > a.txt; echo '*.txt eol=crlf' > .gitattributes", "seq 9 | sed 's/$/\\r/' | head -c 7 > a.txt", "", ""},
		{"line ends by the configuration", "seq 9 > a.txt; seq 9 > new.txt", "seq 9 | sed 's/$/\\r/' > a.txt; cp a.txt new.txt", "", "git config core.autocrlf true; rm *.txt; git checkout -q ."},
		{
			"another encoding", "seq 9 | iconv -t UTF-16LE > a.txt; cp a.txt new.txt", "seq 9 | iconv -t UTF-16LE > a.txt; head -c 5 a.txt > new.txt", "",
			"echo 'a.txt text working-tree-encoding=UTF-16LE' > .gitattributes; echo 'new.txt text working-tree-encoding=UTF-16LE' >> .gitattributes; echo a | iconv -t UTF-16LE > a.txt; git add -A; git commit -qm attributes",
		},
		{"a large file", "head -c 70000000 /dev/zero > new; seq 9 > b.txt", "head -c 70000000 /dev/zero > new", "", ""},
		{"a program that is not executable yet", "echo x > new; chmod +x new a.txt", "echo x > new", "", ""},
		{"the user's file of a checkout that did not begin", "seq 9 > new", "seq 10 > new", "new", ""},
		{"behind a link", "mkdir new; seq 9 > new/c.txt", "ln -s dir new; : > dir/c.txt", "new", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newRepo(t)
			w.run(w.root, nil, "sh", "-ec", tc.setUp)
			w.createSandbox()
			w.inSandbox(tc.agent + "\ngit add -A; git commit -qm agent")
			w.interrupt()
			w.run(w.root, nil, "sh", "-ec", tc.left)
			left := contents(t, w.root)
			res := w.fetch()
			if tc.inTheWay != "" {
				assert.Assert(t, res.Conflict != nil, "the branch has arrived")
				assert.Equal(t, res.Conflict.Kind, fileInTheWay)
				assert.Equal(t, res.Conflict.Detail, tc.inTheWay)
				after := contents(t, w.root)
				assert.Equal(t, after[tc.inTheWay], left[tc.inTheWay])
				assert.Equal(t, after["dir/c.txt"], left["dir/c.txt"])
				return
			}
			assert.Assert(t, res.Conflict == nil, "%v", res.Conflict)
			assert.Equal(t, res.Commits, 1)
			w.assertClean()
			user, agent := contents(t, w.root), contents(t, w.work)
			for _, files := range []map[string]string{user, agent} {
				for name, content := range files {
					files[name] = strings.ReplaceAll(content, "\r", "")
				}
			}
			assert.DeepEqual(t, user, agent)
		})
	}
}

// A file that was half written does not stay half if the sandbox's branch has moved on.
func TestInterruptedFastForwardToARewrittenCommit(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.commit("a.txt", "agent's first and second line\n")
	w.interrupt()
	w.write("a.txt", "agent's first")
	w.inSandbox("git reset -q --hard HEAD~; echo other > b.txt; git commit -qam other")
	assert.Equal(t, w.fetch().Commits, 1)
	w.assertClean()
	assert.Equal(t, w.read("a.txt")+w.read("b.txt"), "a\nother\n")
}

// A branch that has moved before the power failed gets its index, and the files that were not written; what the user has
// changed since is a change.
func TestInterruptedAfterTheBranchHasMoved(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, setUp, left, status string }{
		{"all was written", "", "echo agent > a.txt; echo new > new.txt; rm b.txt; seq 9 > c.txt", ""},
		{"nothing was written", "", "", ""},
		{"truncated files", "", ": > a.txt; : > new.txt; rm b.txt; seq 3 > c.txt", ""},
		{"other line ends", "git config core.autocrlf true; rm *.txt; git checkout -q .", "printf 'agent\\r\\n' > a.txt; printf 'new\\r\\n' > new.txt; rm b.txt; printf '1\\r\\n' > c.txt", ""},
		{"changed by the user", "", "echo agent > a.txt; echo mine >> a.txt; echo new > new.txt; rm b.txt; seq 9 > c.txt; echo x > mine.txt", " M a.txt\n?? mine.txt"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newRepo(t)
			w.run(w.root, nil, "sh", "-ec", tc.setUp)
			w.createSandbox()
			w.inSandbox("echo agent > a.txt; echo new > new.txt; git rm -q b.txt; seq 9 > c.txt; git add -A; git commit -qm agent")
			w.interrupt()
			w.run(w.root, nil, "sh", "-ec", tc.left)
			w.git("update-ref", "refs/heads/main", w.sandboxGit("rev-parse", "main"))
			w.fetch()
			assert.Equal(t, w.git("status", "--porcelain"), tc.status)
			assert.Equal(t, w.git("show", ":new.txt"), "new")
		})
	}
}
