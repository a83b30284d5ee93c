package gitsync

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitsync/refname"
)

// sentCounter counts the bytes of objects that are sent; size is what was estimated last.
type sentCounter struct{ bytes, size int64 }

// next returns how many were sent since the last call.
func (s *sentCounter) next() int64 {
	defer func() { s.bytes = 0 }()
	return s.bytes
}

// Write counts what is sent.
func (s *sentCounter) Write(p []byte) (int, error) {
	s.bytes += int64(len(p))
	return len(p), nil
}

// countSent makes pushes count what they send.
func (w *fixture) countSent() *sentCounter {
	s := &sentCounter{}
	w.repo = w.repo.WithProgress(func(to io.Writer, size func() (int64, error)) (io.Writer, func(error)) {
		return io.MultiWriter(to, s), func(err error) {
			if err == nil {
				s.size, err = size()
				assert.Check(w.t, err)
			}
		}
	})
	return s
}

// Both sides get each other's commits with their files, and send only what is new.
func TestClone(t *testing.T) {
	t.Parallel()
	c := newRepo(t).fillSandbox()
	c.write("big.bin", strings.Repeat("random enough ", 1<<12)+c.dir)
	c.git("add", "-A")
	c.git("commit", "-q", "-m", "big")
	c.git("tag", "v1")
	c.start()
	assert.Equal(t, c.inSandbox("cat a.txt dir/c.txt; git status --porcelain; git log --format=%s; git tag; git fsck"), "a\nc\nbig\nfirst\nv1")

	c.inSandbox("echo new > dir/new.txt; git rm -q b.txt; echo more >> a.txt; ln -s a.txt link; git add -A; git commit -qm agent")
	res := c.fetch()
	assert.Equal(t, res.Commits, 1)
	c.assertClean()
	assert.Equal(t, c.git("log", "-1", "--format=%s"), "agent")
	assert.Equal(t, c.read("a.txt")+c.read("dir/new.txt")+c.read("link"), "a\nmore\nnew\na\nmore\n")
	_, err := os.Stat(filepath.Join(c.root, "b.txt"))
	assert.Assert(t, os.IsNotExist(err))

	sent := c.countSent()
	c.start()
	assert.Equal(t, sent.next(), int64(0), "the sandbox has all objects")
	c.write("a.txt", "the user's\n")
	c.git("commit", "-qam", "user")
	c.start()
	assert.Assert(t, sent.bytes > 0 && sent.bytes < 1000, "%d bytes", sent.bytes)
	assert.Assert(t, sent.size > 0 && sent.size < 1000, "%d bytes", sent.size)
	assert.Equal(t, c.inSandbox("cat a.txt; git status --porcelain; git log -1 --format=%s"), "the user's\nuser")
	_, done, err := c.repo.PushUnchanged(t.Context(), c.sh)
	assert.NilError(t, err)
	assert.Assert(t, !done, "it may have commits")
	c.fetch()
	_, done, err = c.repo.PushUnchanged(t.Context(), c.sh)
	assert.NilError(t, err)
	assert.Assert(t, done)
}

// What the agent has not committed stays in the sandbox, or in a stash if it is in the way.
func TestCloneKeepsUncommittedChanges(t *testing.T) {
	t.Parallel()
	c := newRepo(t).fillSandbox()
	c.write("unfinished.txt", "user's\n")
	res := c.start()
	assert.DeepEqual(t, res.Uncommitted, []string{"unfinished.txt"})

	c.inSandbox("echo agent >> a.txt; echo agent > other.txt")
	c.write("b.txt", "user\n")
	c.git("commit", "-qm", "user", "b.txt")
	c.start()
	assert.Equal(t, c.inSandbox("cat a.txt b.txt other.txt"), "a\nagent\nuser\nagent")

	c.write("a.txt", "user\n")
	c.git("commit", "-qm", "in the way", "a.txt")
	c.start()
	assert.Equal(t, c.inSandbox("cat a.txt; git status --porcelain; git show stash:a.txt; git show stash^3:other.txt"), "user\na\nagent\nagent")

	c.inSandbox("echo last > last.txt")
	assert.NilError(t, c.repo.SaveUncommitted(t.Context(), c.sh))
	assert.NilError(t, c.repo.SaveUncommitted(t.Context(), c.sh))
	c.fetch()
	assert.Equal(t, c.git("show", c.repo.Prefix()+"/"+refname.Stash+"^3:last.txt"), "last")
	assert.Equal(t, c.git("for-each-ref", "--format=%(refname)", c.repo.Prefix()+"/"+refname.Stash+"*"),
		c.repo.Prefix()+"/@stash\n"+c.repo.Prefix()+"/@stash-"+c.inSandbox("git rev-parse stash@{1}"))
	assert.Equal(t, c.read("unfinished.txt"), "user's\n")
}

// A fast-forward never overwrites files that are not committed; it follows once they are
// out of the way.
func TestCloneFastForwardKeepsFiles(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, user, agent, file string }{
		{"changed", "echo mine > a.txt", "echo agent > a.txt", "a.txt"},
		{"untracked, with special characters", `echo mine > "it's new"`, `echo agent > "it's new"`, "it's new"},
		{"staged, with special characters", `echo mine > "it's new"; git add .`, `echo agent > "it's new"`, "it's new"},
		{"deleted by the agent", "echo mine > a.txt", "git rm -q a.txt", "a.txt"},
		{"staged", "echo mine > a.txt; git add a.txt", "echo agent > a.txt", "a.txt"},
		{"untracked", "echo mine > new.txt", "echo agent > new.txt", "new.txt"},
		{"ignored", "echo mine > secret.env; mkdir .git/info; echo '*.env' > .git/info/exclude", "echo agent > secret.env; git add -f secret.env", "secret.env"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newSandbox(t)
			c.run(c.root, nil, "sh", "-ec", tc.user)
			tip, status := c.tip("main"), c.git("status", "--porcelain", "--ignored")
			c.inSandbox("echo more > harmless.txt; " + tc.agent + "; git add -A; git commit -qm agent")
			res := c.fetch()
			assert.Assert(t, res.Conflict != nil)
			assert.Equal(t, res.Conflict.Kind, fileInTheWay, res.Conflict.Error())
			assert.Equal(t, res.Conflict.Detail, tc.file)
			assert.Equal(t, strings.Contains(res.Conflict.Hint(), "stash"), !strings.HasPrefix(tc.name, "ignored"), res.Conflict.Hint())
			assert.Equal(t, c.tip("main"), tip)
			assert.Equal(t, c.git("status", "--porcelain", "--ignored"), status)
			assert.Equal(t, c.read(tc.file), "mine\n")

			c.run(c.root, nil, "sh", "-ec", "git reset -q; git checkout -q .; git clean -qfdx")
			assert.Equal(t, c.fetch().Commits, 1)
			c.assertClean()
			assert.Equal(t, c.tip("main"), c.inSandbox("git rev-parse HEAD"))
		})
	}
}

// A push that was interrupted is repeated.
func TestCloneInterruptedPush(t *testing.T) {
	t.Parallel()
	c := newRepo(t).fillSandbox()
	cut := errors.New("connection lost")
	_, err := c.repo.Push(t.Context(), func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
		if !strings.Contains(script, "index-pack") {
			return c.sh(ctx, script, args, stdin, stdout)
		}
		_ = c.sh(ctx, strings.ReplaceAll(script, "git update-ref -m", "exit 1; git update-ref -m"), args, stdin, stdout)
		return cut
	})
	assert.Assert(t, errors.Is(err, cut))
	c.start()
	assert.Equal(t, c.inSandbox("git status --porcelain; git log --format=%s"), "first")
}

// A push that was cut continues after the last part that the sandbox has got.
func TestClonePushContinues(t *testing.T) {
	t.Parallel()
	c := newRepo(t).fillSandbox()
	const files, size = 8, 20000
	for i := range files {
		c.git("checkout", "-q", "-b", fmt.Sprint("topic", i))
		content := make([]byte, size)
		_, _ = rand.Read(content)
		c.write("random", string(content))
		c.git("add", ".")
		c.git("commit", "-q", "-m", fmt.Sprint(i))
		c.git("checkout", "-q", "main")
		c.git("merge", "-q", "--no-ff", "-m", fmt.Sprint("merge ", i), fmt.Sprint("topic", i))
	}
	c.repo.partSize = 2 * size
	parts := 0
	_, err := c.repo.Push(t.Context(), func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
		if script == partScript {
			if parts++; parts == 3 {
				_, _ = io.CopyN(io.Discard, stdin, size/2)
				return errCut
			}
		}
		return c.sh(ctx, script, args, stdin, stdout)
	})
	assert.ErrorIs(t, err, errCut)
	sent := c.countSent()
	c.start()
	rest := sent.next()
	assert.Assert(t, rest > 3*size && rest < 6*size, "%d bytes", rest)
	assert.Equal(t, c.inSandbox("git fsck --strict && git status --porcelain && git log --format=%H"), c.git("log", "--format=%H"))
	c.start()
	assert.Equal(t, sent.next(), int64(0))
}

// Of a large file, a later push sends what has changed.
func TestClonePushSendsDeltas(t *testing.T) {
	t.Parallel()
	c := newRepo(t).fillSandbox()
	sent := c.countSent()
	const size = 9 << 20
	content := make([]byte, size)
	_, _ = rand.Read(content)
	c.write("large", string(content))
	c.git("add", ".")
	c.git("commit", "-q", "-m", "large")
	c.start()
	assert.Assert(t, sent.next() > size)
	content[size/2]++
	c.write("large", string(content))
	c.git("commit", "-q", "-a", "-m", "changed")
	c.start()
	assert.Assert(t, sent.bytes < size/100, "%d bytes", sent.bytes)
}

// What a sandbox has got from a push whose end was not seen is not taken for its own commits.
func TestClonePushWithUnknownEnd(t *testing.T) {
	t.Parallel()
	for _, synced := range []bool{false, true} {
		t.Run(fmt.Sprintf("synced %t", synced), func(t *testing.T) {
			t.Parallel()
			c := newRepo(t).fillSandbox()
			c.git("branch", "other")
			if synced {
				c.start()
				c.fetch()
				c.git("commit", "-q", "--amend", "-m", "amended")
				c.git("branch", "-f", "other")
			}
			cut := func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
				err := c.sh(ctx, script, args, stdin, stdout)
				if script == pushScript {
					return errCut
				}
				return err
			}
			_, err := c.repo.Push(t.Context(), cut)
			assert.ErrorIs(t, err, errCut)
			_, done, err := c.repo.PushUnchanged(t.Context(), c.sh)
			assert.NilError(t, err)
			assert.Assert(t, !done)
			c.git("commit", "-q", "--amend", "-m", "amended again")
			c.git("branch", "-f", "other")
			res := c.fetch()
			assert.Assert(t, res.Conflict == nil && len(res.Others) == 0, "%+v", res)
			c.start()
			assert.Equal(t, c.inSandbox("git status --porcelain; git log --format=%s; git log --format=%s other"), "amended again\namended again")
		})
	}
}

// Repositories of every kind can be cloned, and get commits back.
func TestCloneOfUnusualRepositories(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, setUp string // run in the user's repository
		agent       string
		check       string // in the user's repository
	}{
		{
			"sparse", "git sparse-checkout set --no-cone dir", "test -e dir/c.txt; test ! -e a.txt; echo x > dir/x; git add dir/x; git commit -qm x; test -z \"$(git status --porcelain)\"",
			"cat dir/x; test ! -e a.txt",
		},
		{
			"submodule", `git clone -q . ../sub; git -c protocol.file.allow=always submodule --quiet add "$PWD/../sub" sub; git commit -qm sub`,
			"git ls-files -s sub | grep -q ^160000; echo x > x; git add -A; git commit -qm x; git ls-files -s sub | grep -q ^160000", "cat x sub/a.txt",
		},
		{
			"filter", `git config filter.up.clean 'tr a-z A-Z'; git config filter.up.smudge 'tr A-Z a-z'; echo '*.up filter=up' > .gitattributes; echo low > f.up; git add -A; git commit -qm f`,
			"test \"$(cat f.up)\" = LOW; echo x > x; git add -A; git commit -qm x", "cat x f.up",
		},
		{
			"odd paths", `printf x > "$(printf 'new\nline')"; printf x > 'sp ace'; printf x > "$(printf '\377')"; printf x > '-rf'; git add -A; git commit -qm odd`,
			`printf y > "$(printf 'other\nline')"; printf y > 'sp ace'; echo x > x; git add -A; git commit -qm x`, "cat x 'sp ace'",
		},
		{"empty files and modes", "touch empty; echo '#!' > run; chmod +x run; git add -A; git commit -qm m", "test -x run; echo x > x; chmod +x x; git add -A; git commit -qm x", "cat x; test -x x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newRepo(t)
			w.run(w.root, nil, "sh", "-ec", tc.setUp)
			c := w.fillSandbox()
			c.start()
			assert.Equal(t, c.inSandbox("git status --porcelain"), "")
			c.inSandbox(tc.agent)
			res := c.fetch()
			assert.Equal(t, res.Commits, 1)
			assert.Assert(t, is.Contains(c.run(c.root, nil, "sh", "-ec", tc.check), "x"))
			c.assertClean()
			c.start()
			assert.Equal(t, c.inSandbox("git status --porcelain"), "")
		})
	}
}

// Uncommitted changes are sent on request, stay out of the sandbox's commits, and follow
// those of the user.
func TestCloneWithChanges(t *testing.T) {
	t.Parallel()
	c := newRepo(t).fillSandbox()
	c.repo = c.repo.WithChanges()
	c.write("a.txt", "user's\n")
	c.write("new file.txt", "new\n")
	c.write("staged.txt", "staged\n")
	c.git("add", "staged.txt")
	assert.NilError(t, os.Remove(filepath.Join(c.root, "b.txt")))
	objects := c.git("count-objects", "-v")
	res := c.start()
	assert.DeepEqual(t, res.Sent, []string{"a.txt", "b.txt", "new file.txt", "staged.txt"})
	assert.Equal(t, c.git("count-objects", "-v"), objects, "nothing is left in the user's repository")
	assert.Equal(t, c.inSandbox("cat a.txt 'new file.txt' staged.txt; ls"), "user's\nnew\nstaged\na.txt\ndir\nnew file.txt\nstaged.txt")
	c.inSandbox("echo agent > agent.txt; git add -A; git commit -qm agent")
	assert.Equal(t, c.inSandbox("git diff --name-only HEAD~"), "agent.txt")
	assert.Equal(t, c.fetch().Commits, 1)
	assert.Equal(t, c.git("status", "--porcelain"), " M a.txt\n D b.txt\nA  staged.txt\n?? \"new file.txt\"")

	c.write("a.txt", "changed again\n")
	assert.NilError(t, os.Remove(filepath.Join(c.root, "new file.txt")))
	c.git("checkout", "-q", "b.txt")
	c.git("commit", "-qm", "staged", "staged.txt")
	res = c.start()
	assert.DeepEqual(t, res.Sent, []string{"a.txt"})
	assert.Equal(t, c.inSandbox("cat a.txt; ls; git log -1 --format=%s; git stash list"), "changed again\na.txt\nagent.txt\nb.txt\ndir\nstaged.txt\nstaged")

	// What the agent has done to them is kept.
	c.inSandbox("echo agent > a.txt")
	c.git("checkout", "-q", "a.txt")
	assert.Equal(t, len(c.start().Sent), 0)
	assert.Equal(t, c.inSandbox("cat a.txt; git show stash:a.txt; git status --porcelain"), "a\nagent")

	c.write("a.txt", "user's\n")
	c.write("new.txt", "user's\n")
	c.start()
	c.inSandbox("echo agent >> a.txt; echo agent >> new.txt")
	assert.NilError(t, c.repo.SaveUncommitted(t.Context(), c.sh))
	assert.Equal(t, c.inSandbox("git show stash:a.txt stash^3:new.txt; git status --porcelain"), "user's\nagent\nuser's\nagent")
}

// Changes of any kind are sent, but for repositories in the worktree.
func TestCloneWithUnusualChanges(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.run(w.root, nil, "sh", "-ec", `git clone -q . ../sub; git -c protocol.file.allow=always submodule --quiet add "$PWD/../sub" sub; printf x > "$(printf 'odd\377')"; git add -A; git commit -qm sub`)
	c := w.fillSandbox()
	c.start()
	gitlink := c.inSandbox("git ls-files -s sub")
	c.repo = c.repo.WithChanges()
	c.run(c.root, nil, "sh", "-ec", `git -C sub commit -q --allow-empty -m more
git init -q unborn; git init -q nested; git -C nested commit -q --allow-empty -m x; echo x > nested/x
printf 'y\n' > "$(printf 'odd\377')"; printf 'z\n' > "$(printf 'new\376')"
rm -r dir; ln -s sub dir; rm a.txt; mkdir a.txt; echo below > a.txt/b; chmod +x b.txt`)
	for range 2 {
		res := c.start()
		assert.DeepEqual(t, res.Sent, []string{"a.txt", "a.txt/b", "b.txt", "dir", "dir/c.txt", "new\376", "odd\377"})
		assert.DeepEqual(t, res.Unsent, []string{"nested/", "unborn/"})
		assert.Assert(t, is.Contains(strings.Join(res.Notes(), "\n"), "Warning: nested repositories are not sent to the sandbox: nested/, unborn/"))
		assert.Equal(t, c.inSandbox(`cat "$(printf 'odd\377')" "$(printf 'new\376')" a.txt/b; readlink dir; test -x b.txt; git ls-files -s sub; ls -d nested unborn 2>&1 | grep -c cannot`), "y\nz\nbelow\nsub\n"+gitlink+"\n2")
		c.inSandbox("echo agent >> agent.txt; git add -A; git commit -qm agent")
		assert.Equal(t, c.inSandbox("git diff --name-only HEAD~"), "agent.txt")
		assert.Equal(t, c.fetch().Commits, 1)
	}
	c.run(c.root, nil, "sh", "-ec", "rm dir; rm -r a.txt; git checkout -q a.txt b.txt dir odd*; rm new*")
	assert.Equal(t, len(c.start().Sent), 0)
	assert.Equal(t, c.inSandbox("git status --porcelain; git stash list; ls | wc -l"), "6")
}

// Filters of the sandbox are the agent's: they run neither when its files change nor when
// they are saved.
func TestCloneRunsNoFilters(t *testing.T) {
	t.Parallel()
	c := newRepo(t).fillSandbox()
	c.repo = c.repo.WithChanges()
	c.write(".gitattributes", "*.txt filter=x\n")
	c.git("add", "-A")
	c.git("commit", "-qm", "attributes")
	c.start()
	ran := filepath.Join(c.dir, "ran")
	for _, kind := range []string{"clean", "smudge", "process"} {
		c.inSandbox("git config filter.x." + kind + " 'touch " + ran + "; exit 1'")
	}
	c.inSandbox("git config filter.x.required true")
	c.write("b.txt", "user's\n")
	c.start()
	c.inSandbox("echo agent > b.txt; echo agent > a.txt; echo new > new.txt")
	c.write("a.txt", "user's\n")
	c.git("commit", "-qm", "user", "a.txt")
	c.git("checkout", "-q", "b.txt")
	c.start()
	c.inSandbox("echo agent > a.txt")
	assert.NilError(t, c.repo.SaveUncommitted(t.Context(), c.sh))
	c.fetch()
	assert.Equal(t, c.git("show", c.repo.Prefix()+"/"+refname.Stash+":a.txt"), "agent")
	_, err := os.Stat(ran)
	assert.Assert(t, os.IsNotExist(err))
}

// Objects of Git LFS are no part of commits.
func TestCloneWithLFSObjects(t *testing.T) {
	t.Parallel()
	c := newSandbox(t)
	only := func() int {
		t.Helper()
		n, err := c.repo.OnlyLFS(t.Context(), c.sh)
		assert.NilError(t, err)
		return n
	}
	assert.Equal(t, only(), 0)
	id := strings.Repeat("ab", 32)
	path := "lfs/objects/ab/ab/" + id
	c.inSandbox("mkdir -p \"$GIT_DIR\"/lfs/objects/ab/ab; cd \"$GIT_DIR\"/lfs; echo x > objects/ab/ab/" + id + "; echo x > objects/unfinished")
	assert.Equal(t, only(), 1)
	c.write(".git/"+path, "x\n")
	assert.Equal(t, only(), 0)
}

// A sparse checkout stays one when changes are sent and removed, and ignored files stay ignored.
func TestCloneOfSparseCheckoutWithChanges(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.git("sparse-checkout", "set", "--no-cone", "dir")
	w.write(".git/info/exclude", "*.o\n")
	c := w.fillSandbox()
	c.repo = c.repo.WithChanges()
	for range 2 {
		c.write("dir/c.txt", "user's\n")
		assert.DeepEqual(t, c.start().Sent, []string{"dir/c.txt"})
		assert.Equal(t, c.inSandbox("cat dir/c.txt; ls; git status --porcelain"), "user's\ndir")
	}
	c.git("checkout", "-q", "dir/c.txt")
	c.start()
	assert.Equal(t, c.inSandbox("echo > dir/x.o; cat dir/c.txt; ls; git status --porcelain"), "c\ndir")
}
