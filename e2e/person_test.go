//go:build unix

package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// A person works in a worktree while agents work for it.

// person is somebody whose files and commits must not get lost.
type person struct {
	t       *testing.T
	w       *world
	rnd     *rand.Rand
	files   map[string]string // what is not committed, by path; git ignores some
	commits []string          // files of the branch
	count   int
	notes   []string
}

// doings are what a person does beside a loop. Each leaves main checked out.
var doings = []struct {
	name string
	do   func(p *person)
}{
	{"edit", func(p *person) { p.edit(fmt.Sprintf("mine/%d.txt", p.rnd.IntN(3))) }},
	{"edit an ignored file", func(p *person) { p.edit(".env") }},
	{"remove", func(p *person) {
		path := fmt.Sprintf("mine/%d.txt", p.rnd.IntN(3))
		delete(p.files, path)
		_ = os.Remove(filepath.Join(p.w.repo, path))
	}},
	{"rename", func(p *person) {
		from, to := "mine/0.txt", fmt.Sprintf("mine/renamed-%d.txt", p.rnd.IntN(3))
		if content, has := p.files[from]; has {
			assert.NilError(p.t, os.Rename(filepath.Join(p.w.repo, from), filepath.Join(p.w.repo, to)))
			delete(p.files, from)
			p.files[to] = content
		}
	}},
	{"stash and pop", func(p *person) {
		if p.git("stash", "push", "-q", "--include-untracked") && p.git("rev-parse", "-q", "--verify", "refs/stash") {
			p.pause()
			p.must("stash", "pop", "-q")
		}
	}},
	{"switch and back", func(p *person) {
		p.must("switch", "-q", "-C", "elsewhere")
		p.pause()
		p.must("switch", "-q", "main")
	}},
	{"detach and back", func(p *person) {
		p.must("switch", "-q", "--detach", "HEAD")
		p.pause()
		p.must("switch", "-q", "main")
	}},
	{"rebase in steps", func(p *person) {
		if p.git("-c", "sequence.editor=echo break >", "rebase", "-q", "-i", "HEAD") {
			p.pause()
			p.must("rebase", "--abort")
		}
	}},
	{"add and remove a worktree", func(p *person) {
		at := fmt.Sprintf("trees/%d", time.Now().UnixNano())
		p.must("worktree", "add", "-q", "--detach", at)
		p.pause()
		p.must("worktree", "remove", "--force", at)
	}},
	{"collect garbage", func(p *person) { p.git("gc", "-q", "--prune=now") }},
	{"commit", func(p *person) {
		name := p.name()
		p.w.write(p.t, filepath.Join(p.w.repo, name), "by the person\n")
		p.must("add", name)
		p.must("commit", "-q", "-m", "person "+name, "--", name)
		p.commits = append(p.commits, name)
	}},
	{"amend", func(p *person) {
		if strings.HasPrefix(p.w.git(p.t, "log", "-1", "--format=%s"), "person ") {
			p.must("commit", "-q", "--amend", "--allow-empty", "-m", "person amended "+p.name())
		}
	}},
	{"rename in a commit", func(p *person) {
		if len(p.commits) > 0 {
			from, to := p.commits[0], p.name()
			p.must("mv", from, to)
			p.must("commit", "-q", "-m", "person "+to, "--", from, to)
			p.commits[0] = to
		}
	}},
	{"remove in a commit", func(p *person) {
		if len(p.commits) > 0 {
			p.must("rm", "-q", p.commits[0])
			p.must("commit", "-q", "-m", "person without "+p.commits[0], "--", p.commits[0])
			p.commits = p.commits[1:]
		}
	}},
	{"rename the branch and back", func(p *person) {
		p.must("branch", "-m", "main", "renamed")
		p.pause()
		p.must("branch", "-m", "renamed", "main")
	}},
}

func (p *person) name() string {
	p.count++
	return fmt.Sprintf("person-%d.txt", p.count)
}

// git runs git, which may fail while another git has a lock.
func (p *person) git(args ...string) bool {
	p.t.Helper()
	res := run(p.t, p.w.command("git", args...))
	if res.code != 0 {
		p.notes = append(p.notes, fmt.Sprintf("git %q: %s", args, res.stderr))
	}
	return res.code == 0
}

// must repeats git until no lock is in the way.
func (p *person) must(args ...string) {
	p.t.Helper()
	eventually(p.t, func() error {
		if !p.git(args...) {
			return fmt.Errorf("%s", p.notes[len(p.notes)-1])
		}
		return nil
	})
}

func (p *person) edit(path string) {
	p.files[path] = fmt.Sprintf("secret of the person %d\n", p.rnd.Uint64())
	p.w.write(p.t, filepath.Join(p.w.repo, path), p.files[path])
	if dir := filepath.Dir(path); dir != "." {
		p.w.chown(p.t, filepath.Join(p.w.repo, dir))
	}
}

// pause is how long a person needs.
func (p *person) pause() { <-time.After(time.Duration(p.rnd.IntN(600)) * time.Millisecond) }

func (p *person) assertFiles(after string) {
	p.t.Helper()
	for path, content := range p.files {
		found, err := os.ReadFile(filepath.Join(p.w.repo, path))
		assert.NilError(p.t, err, after)
		assert.Equal(p.t, string(found), content, "%s after %q", path, after)
	}
}

// after does what a loop that has ended asks for: to merge its commits, or nothing. It could not be started
// while the person was in a rebase, or had no branch.
func (p *person) after(res result) (merged bool) {
	p.t.Helper()
	p.notes = append(p.notes, fmt.Sprintf("build: %d\n%s", res.code, res.stderr))
	ref := "refs/ralph/" + p.w.sandboxOf(p.t, "main") + "/main"
	if res.code == 0 || !strings.Contains(res.stderr, ref) {
		return false
	}
	p.must("merge", "-q", "--no-edit", ref)
	return true
}

// sandboxOf returns the name of the sandbox of a branch.
func (w *world) sandboxOf(t *testing.T, branch string) string {
	t.Helper()
	for _, c := range w.containers(t) {
		if c.Labels[labelPrefix+"scope.branch"] == branch {
			return c.Names[0][1:]
		}
	}
	t.Fatalf("branch %s has no sandbox", branch)
	return ""
}

// Whatever a person does in the worktree beside two loops, nothing of it is lost or in a commit of an
// agent, and all commits of the agents arrive. Which things, and in which order, is the seed's choice.
func TestPersonBesideLoops(t *testing.T) {
	withClone(t, func(t *testing.T, w *world) {
		seed, lasts := cmp.Or(*soakSeed, rand.Uint64()), cmp.Or(*soakTime, 20*time.Second)
		p := &person{t: t, w: w, rnd: rand.New(rand.NewPCG(seed, seed)), files: map[string]string{}}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("seed %d\n%s", seed, strings.Join(p.notes, "\n"))
			}
		})
		w.ignore(t, ".env", "trees/")
		second := w.linkedWorktree(t, "second")
		const tasks = 12
		for _, tree := range []*world{w, second} {
			var all []task
			for n := range tasks {
				name := fmt.Sprintf("agent-%02d", n)
				all = append(all, task{ID: name, Title: "Add " + name, Priority: n, Steps: []string{"mkdir -p agent; echo x >agent/" + name + "; sleep 0.5"}})
			}
			tree.plan(t, all...)
			tree.createSandbox(t)
		}
		beside := start(t, second.docker("ralph", "build"))
		build := start(t, w.docker("ralph", "build"))

		counts, merges := map[string]int{}, 0
		for end := time.Now().Add(lasts); time.Now().Before(end); {
			select {
			case <-build.done:
				if p.after(build.wait(t)) {
					merges++
				}
				build = start(t, w.docker("ralph", "build"))
			default:
			}
			doing := doings[p.rnd.IntN(len(doings))]
			counts[doing.name]++
			doing.do(p)
			p.assertFiles(doing.name)
			p.pause()
		}

		for range 8 { // nobody disturbs it any more
			res := build.wait(t)
			if res.code == 0 {
				break
			}
			p.after(res)
			build = start(t, w.docker("ralph", "build"))
		}
		beside.wait(t).expect(t, 0)
		t.Logf("seed %d: %v, %d merges", seed, counts, merges)
		p.assertFiles("all")
		for _, tree := range []*world{w, second} {
			for n := range tasks {
				tree.git(t, "cat-file", "-e", fmt.Sprintf("HEAD:agent/agent-%02d", n))
			}
		}
		for _, name := range p.commits {
			w.git(t, "cat-file", "-e", "HEAD:"+name)
		}
		assert.Check(t, !strings.Contains(w.git(t, "log", "-p", "--exclude=refs/stash", "--all"), "secret of the person"))
	})
}
