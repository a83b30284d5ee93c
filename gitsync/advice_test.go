package gitsync

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitsync/hostgit"
)

// hostile is a commit that leads git to what an agent has planted.
type hostile struct {
	name   string
	barred bool // whether the commits must not be taken
	commit func(w *world)
}

// plant puts everything into the working tree that could make git run a program.
func plant(w *world) {
	w.t.Helper()
	run := "touch " + w.marker() + "; false"
	inner := filepath.Join(w.root, "inner")
	w.write("inner/a.txt", "x")
	w.run(inner, nil, "git", "init", "-q")
	w.run(inner, nil, "git", "add", "-A")
	w.run(inner, nil, "git", "commit", "-q", "-m", "inner")
	for _, s := range [][2]string{{"core.fsmonitor", run}, {"core.hooksPath", inner}, {"diff.external", run}, {"filter.x.clean", run}} {
		w.run(inner, nil, "git", "config", s[0], s[1])
	}
	for _, hook := range []string{"post-checkout", "post-index-change", "pre-commit", "reference-transaction"} {
		writeProgram(w.t, filepath.Join(inner, hook), "#!/bin/sh\n"+run+"\n")
	}
	w.write(".gitattributes", "* filter=x diff=x merge=x\n")
	w.write(".gitmodules", "[submodule \"inner\"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n")
}

func (w *world) marker() string { return filepath.Join(w.dir, "marker") }

func (w *world) planted() bool {
	_, err := os.Stat(w.marker())
	return err == nil
}

func hostiles() []hostile {
	return []hostile{
		{"a submodule", true, func(w *world) {
			w.agent("add", "-f", "inner", ".gitmodules")
			w.agent("commit", "-q", "-m", "agent: submodule")
		}},
		{"a submodule that a later commit removes", true, func(w *world) {
			w.agent("add", "-f", "inner")
			w.agent("commit", "-q", "-m", "agent: submodule")
			w.agent("rm", "-q", "--cached", "inner")
			w.agent("commit", "-q", "-m", "agent: no submodule")
		}},
		{"a submodule in a merge", true, func(w *world) {
			w.agent("add", "-f", "inner")
			tree := w.agent("write-tree")
			w.agent("reset", "-q", "--soft", w.agent("commit-tree", "-p", "HEAD", "-p", w.agent("commit-tree", "-m", "other", "HEAD^{tree}"), "-m", "merge", tree))
		}},
		{"files only", false, func(w *world) {
			w.agent("add", ".gitattributes", ".gitmodules")
			w.agent("commit", "-q", "-m", "agent: files")
		}},
	}
}

// clashes create each kind of conflict; commit makes the agent's last commit.
func clashes() map[Kind][]func(w *world, commit func()) {
	user := func(w *world, file string) {
		w.write(file, "user's\n")
		w.git("commit", "-q", "-m", "user", file)
	}
	return map[Kind][]func(w *world, commit func()){
		diverged: {
			func(w *world, commit func()) { commit(); user(w, "b.txt") },
			func(w *world, commit func()) { w.commit("a.txt", "agent's\n"); commit(); user(w, "a.txt") },
		},
		movedBack: {func(w *world, commit func()) {
			w.commit("a.txt", "one\n")
			w.out()
			w.git("reset", "-q", "HEAD~")
			commit()
		}},
		rewritten: {func(w *world, commit func()) {
			w.commit("a.txt", "one\n")
			w.out()
			w.agent("commit", "-q", "--amend", "-m", "another message")
			commit()
		}},
		switchedAway: {func(w *world, commit func()) { commit(); w.git("switch", "-q", "-c", "other") }},
		branchGone:   {func(w *world, commit func()) { commit(); w.git("update-ref", "-d", "refs/heads/main") }},
		operation: {func(w *world, commit func()) {
			commit()
			assert.NilError(w.t, os.WriteFile(filepath.Join(w.root, ".git", "MERGE_HEAD"), []byte(w.tip("main")+"\n"), 0o644))
		}},
		hasSubmodule: {func(w *world, commit func()) { commit() }},
		filesElsewhere: {func(w *world, commit func()) {
			w.commit("a.txt", "one\n")
			commit()
			w.git("checkout", "-q", "--", "a.txt")
			for _, name := range []string{".gitattributes", ".gitmodules"} {
				assert.NilError(w.t, os.Remove(filepath.Join(w.root, name)))
			}
		}},
		stagedClash: {func(w *world, commit func()) {
			w.write("x/y", "staged\n")
			w.git("add", "x/y")
			assert.NilError(w.t, os.RemoveAll(filepath.Join(w.root, "x")))
			w.commit("x", "agent's\n")
			commit()
		}},
		indexLocked: {func(w *world, commit func()) {
			commit()
			assert.NilError(w.t, os.WriteFile(filepath.Join(w.root, ".git", "index.lock"), nil, 0o644))
			w.t.Cleanup(func() { _ = os.Remove(filepath.Join(w.root, ".git", "index.lock")) })
		}},
	}
}

// No command of a hint, and none that the user runs next, runs what an agent has
// planted.
func TestAdvisedCommandsRunNothingOfTheAgents(t *testing.T) {
	t.Parallel()
	for kind := diverged; kind < kinds; kind++ {
		assert.Assert(t, len(clashes()[kind]) > 0, "no conflict of kind %d is tried", kind)
		for i, clash := range clashes()[kind] {
			for _, h := range hostiles() {
				// Any submodule is found before it is known what kind of conflict it is.
				if h.barred && h.name != "a submodule" && kind != hasSubmodule && kind != rewritten || !h.barred && kind == hasSubmodule {
					continue
				}
				if testing.Short() && strings.HasPrefix(h.name, "a submodule ") {
					continue // the plain one shows the same
				}
				t.Run(strings.Join([]string{(&Conflict{Kind: kind}).advice().why, string(rune('a' + i)), h.name}, "/"), func(t *testing.T) {
					t.Parallel()
					w := sandboxed(t)
					clash(w, func() { plant(w); h.commit(w) })
					c := w.out().Conflict
					assert.Assert(t, c != nil, "no conflict")
					want := kind
					if h.barred {
						want = hasSubmodule
					}
					assert.Equal(t, c.Kind, want, c.Error())
					if kind == indexLocked {
						assert.NilError(t, os.Remove(filepath.Join(w.root, ".git", "index.lock")))
					}
					for _, args := range append(c.advice().commands,
						[]string{"status"}, []string{"diff"}, []string{"diff", "HEAD"}, []string{"diff", "--cached"},
						[]string{"commit", "-q", "--allow-empty", "-m", "user"}, []string{"commit", "-qam", "user"}, []string{"status"}) {
						w.try("git", args...)
						assert.Assert(t, !w.planted(), "git %q ran what was planted", args)
					}
					w.takesNoSubmodule()
				})
			}
		}
	}
}

// try runs a command that may fail.
func (w *world) try(name string, args ...string) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = w.root, w.environ()
	_ = cmd.Run()
}

// takesNoSubmodule asserts that no submodule is on a branch or at a ref of a hint.
func (w *world) takesNoSubmodule() {
	w.t.Helper()
	assert.Assert(w.t, !strings.Contains(w.git("ls-files", "-s"), hostgit.Submodule+" "))
	log := w.git("log", "--raw", "-m", "--format=", "--exclude="+w.repo.Prefix()+"/"+submoduleRef+"*", "--all")
	assert.Assert(w.t, !strings.Contains(log, " "+hostgit.Submodule+" "), log)
}

// The control: git reset and git status run what was planted.
func TestPlantedProgramRunsWithoutPrecautions(t *testing.T) {
	t.Parallel()
	w := sandboxed(t)
	plant(w)
	hostiles()[0].commit(w)
	c := w.out().Conflict
	assert.Assert(t, c != nil && !w.planted())
	w.git("reset", "-q", c.Ref)
	w.try("git", "status")
	assert.Assert(t, w.planted())
}

// A ref of an earlier hint never leads to a submodule.
func TestAdvisedNamesStaySafe(t *testing.T) {
	t.Parallel()
	w := sandboxed(t)
	w.commit("a.txt", "agent's\n")
	w.write("b.txt", "user's\n")
	w.git("commit", "-q", "-m", "user: b", "b.txt")
	first := w.out().Conflict
	assert.Equal(t, first.Kind, diverged)
	plant(w)
	hostiles()[0].commit(w)
	assert.Equal(t, w.out().Conflict.Kind, hasSubmodule)
	for _, args := range append(first.advice().commands, []string{"merge", first.Ref}, []string{"status"}, []string{"diff"}) {
		w.try("git", args...)
		assert.Assert(t, !w.planted(), "git %q ran what was planted", args)
	}
	w.takesNoSubmodule()
}

func TestSubmodulesOnOtherRefsAreReported(t *testing.T) {
	t.Parallel()
	w := sandboxed(t)
	plant(w)
	w.agent("switch", "-q", "-c", "side")
	hostiles()[0].commit(w)
	w.agent("checkout", "-q", "--detach")
	w.commit("loose.txt", "x\n")
	w.agent("switch", "-q", "main")
	w.agent("branch", "fine", "main")
	w.agent("add", "-f", "inner")
	w.agent("stash", "store", w.agent("commit-tree", "-p", "HEAD", "-p", "side", "-m", "stash", w.agent("write-tree")))
	w.agent("reset", "-q")
	w.agent("checkout", "-q", "--detach", "side")
	w.agent("commit", "-q", "--allow-empty", "-m", "loose")
	res := w.out()
	assert.Assert(t, is.Nil(res.Conflict))
	for ref, place := range map[string]string{"refs/heads/side": "@submodule/side", "refs/stash": "@submodule/@stash", "HEAD": "@submodule/@head"} {
		assert.Equal(t, res.Others[ref], "refs/ralph/ralph-test/"+place)
		assert.Equal(t, res.Submodules[ref], "inner")
	}
	assert.Assert(t, is.Contains(strings.Join(res.Notes(), "\n"),
		`The sandbox's branch "side" is at refs/ralph/ralph-test/@submodule/side: it adds or changes the submodule "inner", so do not merge it or check it out`))
	w.takesNoSubmodule()
	w.git("status")
	assert.Assert(t, !w.planted())
}

func TestPushRejectsABranchWithASubmodule(t *testing.T) {
	t.Parallel()
	w := simple(t)
	w.git("branch", "other")
	w.sandbox()
	plant(w)
	w.agent("switch", "-q", "other")
	hostiles()[0].commit(w)
	w.agent("switch", "-q", "main")
	w.git("switch", "-q", "other")
	_, err := w.repo.Push(t.Context(), w.sh)
	assert.ErrorContains(t, err, `the sandbox's commits add or change the submodule "inner"`)
	w.takesNoSubmodule()
}

func TestSubmoduleBlocksOnlyItsBranch(t *testing.T) {
	t.Parallel()
	w := sandboxed(t)
	plant(w)
	hostiles()[0].commit(w)
	w.out()
	w.git("switch", "-q", "-c", "other")
	w.in()
	assert.Equal(t, w.agent("branch", "--show-current"), "other")
	w.commit("a.txt", "agent's\n")
	assert.Equal(t, w.out().Commits, 1)
}
