//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// The main job: from three open tasks to three commits.
func TestBuildWorksThreeTasksOff(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.byDefault()
		assert.NilError(t, os.Remove(filepath.Join(w.config, "ralph", "config.toml")))
		flags := []string{"--agent", "shell", "--base", engines.BaseImage()}
		flags = append(flags, w.ofDriver()...)
		for i := range 3 {
			n := fmt.Sprint(i + 1)
			w.ok(t, append(flags, "task", "create", "t/"+n, "Add thing "+n, "-p", n, "-s", `["echo `+n+` > thing`+n+`"]`)...)
		}

		first := w.ralph(t, append(flags, "build", "-n", "3")...).expect(t, 0)

		assert.Equal(t, w.git(t, "log", "--reverse", "--format=%s|%an|%ae", "HEAD~3.."),
			"Add thing 1|Una User|una@example.com\nAdd thing 2|Una User|una@example.com\nAdd thing 3|Una User|una@example.com")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
		list := w.ok(t, append(flags, "task", "list", "--markdown")...)
		assert.Equal(t, strings.Count(list, "status: done"), 3, list)
		w.ownsEverything(t)
		assert.Check(t, is.Contains(first.stdout, "All tasks complete. Exiting loop."))

		before := w.sandbox(t)
		assert.Equal(t, before.Name, "ralph-"+strings.Replace(w.slug, "/", "-", 1)+"-main")
		second := w.ralph(t, append(flags, "build")...).expect(t, 0)
		assert.Check(t, is.Contains(second.stdout, "All tasks complete. Exiting loop."))
		assert.Check(t, !strings.Contains(second.stdout, "━━ Done"), "an agent ran:\n%s", second.stdout)
		assert.Equal(t, w.git(t, "rev-list", "--count", "HEAD"), "4")
		assert.Equal(t, w.sandbox(t).ID, before.ID)
	})
}

// One repository has one backlog, whatever git the sandbox has and however the URL of
// its origin is written.
func TestASpellingOfTheOriginKeepsTheBacklog(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.git(t, "remote", "set-url", "origin", "https://git.example/"+w.slug+"/")
		for _, git := range []string{"direct", "private"} {
			w.setenv("RALPH_GIT", git)
			w.ok(t, "--recreate", "task", "create", git, "Add it")
		}
		both := map[string]string{"direct": "open", "private": "open"}
		assert.DeepEqual(t, w.statuses(t), both)
		// An agent can change what git says inside.
		w.ok(t, "shell", "--", "git", "remote", "set-url", "origin", "https://git.example/other/one")
		assert.DeepEqual(t, w.statuses(t), both)
	})
}

// An origin that is a folder of the machine is not in the sandbox's git directory,
// and the loop knows all the same which repository it works on.
func TestAnOriginOnThisMachine(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.byDefault()
		origin := filepath.Join(w.dir, "origin.git")
		w.git(t, "init", "-q", "--bare", origin)
		w.git(t, "remote", "set-url", "origin", origin)
		w.ok(t, "task", "create", "a", "Add a", "-s", `["echo a > a"]`)
		w.slug = strings.TrimSpace(w.ok(t, "ls", "--format", "{{.Repo}}"))
		w.ok(t, "build", "-n", "1")
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add a")
		assert.Check(t, is.Contains(w.ok(t, "task", "list", "--markdown"), "status: done"))
	})
}

// A repository is removed, and cloned again to the same place.
func TestAFolderThatIsMadeAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, git := range []string{"private", "direct"} {
			w.byDefault()
			w.setenv("RALPH_GIT", git)
			w.ok(t, "--recreate", "task", "create", git, "Add "+git, "-s", `["echo a > `+git+`"]`)
			w.ok(t, "build", "-n", "1")
			origin, head := w.git(t, "remote", "get-url", "origin"), w.git(t, "rev-parse", "HEAD")

			aside := w.repo + "-" + git
			assert.NilError(t, os.Rename(w.repo, aside))
			clone := w.command("git", "clone", "-q", aside, w.repo)
			clone.Dir = aside
			run(t, clone).expect(t, 0)
			w.git(t, "remote", "set-url", "origin", origin)
			w.git(t, "config", "user.name", "Una User")
			w.git(t, "config", "user.email", "una@example.com")
			w.ok(t, "task", "create", git+"-again", "Again", "-s", `["echo b > `+git+`-again"]`)
			assert.NilError(t, os.MkdirAll(filepath.Join(w.repo, "specs"), 0o755))
			w.write(t, filepath.Join(w.repo, "specs", "a.md"), "A\n")
			w.own(t, w.repo)
			w.ok(t, "build", "-n", "1")
			assert.Equal(t, w.git(t, "log", "--format=%s", head+".."), "Again")
			assert.Equal(t, w.read(t, git+"-again"), "b\n")
		}
	})
}

// ownsEverything asserts that all in the work tree belongs to the user, and that
// nobody else may write it.
func (w *world) ownsEverything(t *testing.T) {
	t.Helper()
	assert.NilError(t, filepath.WalkDir(w.repo, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && (int(st.Uid) != w.uid || int(st.Gid) != w.gid) {
			return fmt.Errorf("%s belongs to %d:%d", path, st.Uid, st.Gid)
		}
		if info.Mode().Type() != os.ModeSymlink && info.Mode().Perm()&0o022 != 0 {
			return fmt.Errorf("%s has the mode %s", path, info.Mode())
		}
		return nil
	}))
}

func TestPlanFillsTheBacklogFromSpecs(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.byDefault()
		w.write(t, filepath.Join(w.repo, "specs", "greeting.md"), "# Greeting\n\n```ralph-tasks\n"+
			`{"id":"greeting/01","t":"Say hello","p":0,"steps":["echo hello > hello"]}`+"\n"+
			`{"id":"greeting/02","t":"Say it twice","p":1,"deps":["greeting/01"],"steps":["cat hello hello > twice"]}`+"\n```\n")

		out := w.ok(t, "plan")

		assert.DeepEqual(t, w.statuses(t), map[string]string{"greeting/01": "open", "greeting/02": "open"})
		show := w.ok(t, "task", "show", "greeting/02")
		assert.Check(t, is.Contains(show, "Spec:        greeting.md"))
		assert.Check(t, is.Contains(show, "greeting/01 (open)"))
		assert.Check(t, is.Contains(out, "inserted: 2, updated: 0"))
		assert.Equal(t, w.git(t, "rev-list", "--count", "HEAD"), "1", "planning implements nothing")
	})
}

func TestATaskThatFailsGoesBackWithTheReason(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "bad", Title: "Cannot work", Steps: []string{"echo oops >&2; exit 3"}})
		res := w.ralph(t, "build", "-n", "1").expect(t, 6)
		assert.DeepEqual(t, w.statuses(t), map[string]string{"bad": "open"})
		assert.Check(t, is.Contains(w.ok(t, "task", "show", "bad"), "Fail reason: step 1 failed (exit code 3)"))
		assert.Check(t, is.Contains(res.stdout, "Reached max iterations: 1"))
	})
}

// Root works in root's repository as root, and in another user's as that
// user, so that "sudo docker ralph" leaves no file of root's behind.
func TestRootLeavesFilesToTheRepositorysOwner(t *testing.T) {
	t.Parallel()
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		for _, tc := range []struct {
			name     string
			uid, gid int
		}{{"own", 0, 0}, {"another user's", userUID, userGID}} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				w := newRootWorld(t, e)
				w.uid, w.gid = tc.uid, tc.gid
				w.own(t, w.repo)
				root := *w
				root.uid, root.gid = 0, 0
				root.setenv("SUDO_UID", fmt.Sprint(tc.uid)) // as sudo does; git asks for it
				root.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"mkdir d && echo a > d/a"}})
				root.ok(t, "build")
				assert.Equal(t, w.git(t, "log", "-1", "--format=%s"), "Add a")
				w.ownsEverything(t)
			})
		}
	})
}
