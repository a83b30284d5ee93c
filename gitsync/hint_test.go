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
	"github.com/docker-ralph/docker-ralph/gitsync/refname"
)

// hostile is a commit that makes git read what an agent has planted.
type hostile struct {
	name     string
	rejected bool // the commits must not be merged
	commit   func(w *fixture)
}

// plant puts everything into the sandbox's working tree that could make git run a program.
func plant(w *fixture) {
	w.t.Helper()
	run := "touch " + w.marker() + "; false"
	inner := filepath.Join(w.work, "inner")
	w.writeInside("inner/a.txt", "x")
	w.run(inner, nil, "git", "init", "-q")
	w.run(inner, nil, "git", "add", "-A")
	w.run(inner, nil, "git", "commit", "-q", "-m", "inner")
	for _, s := range [][2]string{{"core.fsmonitor", run}, {"core.hooksPath", inner}, {"diff.external", run}, {"filter.x.clean", run}} {
		w.run(inner, nil, "git", "config", s[0], s[1])
	}
	for _, hook := range []string{"post-checkout", "post-index-change", "pre-commit", "reference-transaction"} {
		writeProgram(w.t, filepath.Join(inner, hook), "#!/bin/sh\n"+run+"\n")
	}
	w.writeInside(".gitattributes", "* filter=x diff=x merge=x\n")
	w.writeInside(".gitmodules", "[submodule \"inner\"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n")
}

func (w *fixture) marker() string { return filepath.Join(w.dir, "marker") }

func (w *fixture) executed() bool {
	_, err := os.Stat(w.marker())
	return err == nil
}

func hostileCommits() []hostile {
	return []hostile{
		{"a submodule", true, func(w *fixture) {
			w.sandboxGit("add", "-f", "inner", ".gitmodules")
			w.sandboxGit("commit", "-q", "-m", "agent: submodule")
		}},
		{"a submodule that a later commit removes", true, func(w *fixture) {
			w.sandboxGit("add", "-f", "inner")
			w.sandboxGit("commit", "-q", "-m", "agent: submodule")
			w.sandboxGit("rm", "-q", "--cached", "inner")
			w.sandboxGit("commit", "-q", "-m", "agent: no submodule")
		}},
		{"a submodule in a merge", true, func(w *fixture) {
			w.sandboxGit("add", "-f", "inner")
			tree := w.sandboxGit("write-tree")
			w.sandboxGit("reset", "-q", "--soft", w.sandboxGit("commit-tree", "-p", "HEAD", "-p", w.sandboxGit("commit-tree", "-m", "other", "HEAD^{tree}"), "-m", "merge", tree))
		}},
		{"files only", false, func(w *fixture) {
			w.sandboxGit("add", ".gitattributes", ".gitmodules")
			w.sandboxGit("commit", "-q", "-m", "agent: files")
		}},
	}
}

// conflictSetups create each kind of conflict; commit makes the agent's last commit.
func conflictSetups() map[Kind][]func(w *fixture, commit func()) {
	user := func(w *fixture, file string) {
		w.write(file, "user's\n")
		w.git("commit", "-q", "-m", "user", file)
	}
	return map[Kind][]func(w *fixture, commit func()){
		diverged: {
			func(w *fixture, commit func()) { commit(); user(w, "b.txt") },
			func(w *fixture, commit func()) { w.commit("a.txt", "agent's\n"); commit(); user(w, "a.txt") },
			func(w *fixture, commit func()) {
				w.commit("a.txt", "agent's\n")
				commit()
				user(w, "a.txt")
			},
		},
		fileInTheWay: {func(w *fixture, commit func()) {
			w.commit("a.txt", "agent's\n")
			commit()
			w.write("a.txt", "user's\n")
		}},
		movedBack: {func(w *fixture, commit func()) {
			w.commit("a.txt", "one\n")
			w.fetch()
			w.git("reset", "-q", "--hard", "HEAD~")
			commit()
		}},
		rewritten: {func(w *fixture, commit func()) {
			w.commit("a.txt", "one\n")
			w.fetch()
			w.sandboxGit("commit", "-q", "--amend", "-m", "another message")
			commit()
		}},
		checkedOutElsewhere: {func(w *fixture, commit func()) {
			commit()
			w.git("switch", "-q", "-c", "other")
			w.git("worktree", "add", "-q", filepath.Join(w.dir, "there"), "main")
		}},
		operationElsewhere: {func(w *fixture, commit func()) {
			commit()
			w.git("switch", "-q", "-c", "other")
			there := filepath.Join(w.dir, "there")
			w.git("worktree", "add", "-q", there, "main")
			w.tryRun("git", "-C", there, "rebase", "-q", "-x", "false", "--root")
		}},
		branchGone: {func(w *fixture, commit func()) { commit(); w.git("update-ref", "-d", "refs/heads/main") }},
		operation: {func(w *fixture, commit func()) {
			commit()
			assert.NilError(w.t, os.WriteFile(filepath.Join(w.root, ".git", "MERGE_HEAD"), []byte(w.tip("main")+"\n"), 0o644))
		}},
		hasSubmodule: {func(w *fixture, commit func()) { commit() }},
		unencoded: {func(w *fixture, commit func()) {
			w.git("config", "filter.y.clean", "cat")
			w.writeInside("raw/.gitattributes", "*.y filter=y\n")
			w.writeInside("raw/a.y", "raw\n")
			w.sandboxGit("add", "raw")
			w.sandboxGit("commit", "-q", "-m", "agent: raw")
			commit()
		}},
		indexLocked: {func(w *fixture, commit func()) {
			commit()
			assert.NilError(w.t, os.WriteFile(filepath.Join(w.root, ".git", "index.lock"), nil, 0o644))
			w.t.Cleanup(func() { _ = os.Remove(filepath.Join(w.root, ".git", "index.lock")) })
		}},
	}
}

// Neither the commands of a hint nor the user's next ones run a program that an agent has
// planted.
func TestHintedCommandsRunNoPlantedPrograms(t *testing.T) {
	t.Parallel()
	for kind := diverged; kind < kinds; kind++ {
		assert.Assert(t, len(conflictSetups()[kind]) > 0, "no test of a conflict of kind %d", kind)
		for i, clash := range conflictSetups()[kind] {
			for _, h := range hostileCommits() {
				// Any submodule is found before it is known what kind of conflict it is.
				if h.rejected && h.name != "a submodule" && kind != hasSubmodule && kind != rewritten || !h.rejected && kind == hasSubmodule {
					continue
				}
				if testing.Short() && strings.HasPrefix(h.name, "a submodule ") {
					continue // the plain one shows the same
				}
				t.Run(strings.Join([]string{(&Conflict{Kind: kind}).advice().why, string(rune('a' + i)), h.name}, "/"), func(t *testing.T) {
					t.Parallel()
					w := newSandbox(t)
					clash(w, func() { plant(w); h.commit(w) })
					c := w.fetch().Conflict
					assert.Assert(t, c != nil, "no conflict")
					want := kind
					if h.rejected {
						want = hasSubmodule
					}
					assert.Equal(t, c.Kind, want, c.Error())
					if kind == indexLocked {
						assert.NilError(t, os.Remove(filepath.Join(w.root, ".git", "index.lock")))
					}
					for _, args := range append(c.advice().commands,
						[]string{"status"}, []string{"diff"}, []string{"diff", "HEAD"}, []string{"diff", "--cached"},
						[]string{"commit", "-q", "--allow-empty", "-m", "user"}, []string{"commit", "-qam", "user"}, []string{"status"}) {
						w.tryRun("git", args...)
						assert.Assert(t, !w.executed(), "git %q ran what was planted", args)
					}
					w.assertNoSubmodule()
				})
			}
		}
	}
}

// tryRun runs a command that may fail.
func (w *fixture) tryRun(name string, args ...string) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = w.root, w.env()
	_ = cmd.Run()
}

// assertNoSubmodule asserts that no submodule is on a branch or at a ref of a hint.
func (w *fixture) assertNoSubmodule() {
	w.t.Helper()
	assert.Assert(w.t, !strings.Contains(w.git("ls-files", "-s"), hostgit.Submodule+" "))
	log := w.git("log", "--raw", "-m", "--format=", "--exclude="+w.repo.Prefix()+"/"+refname.Submodule+"*", "--all")
	assert.Assert(w.t, !strings.Contains(log, " "+hostgit.Submodule+" "), log)
}

// A ref of an earlier hint never leads to a submodule.
func TestRefsOfEarlierHintsHaveNoSubmodule(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.commit("a.txt", "agent's\n")
	w.write("b.txt", "user's\n")
	w.git("commit", "-q", "-m", "user: b", "b.txt")
	first := w.fetch().Conflict
	assert.Equal(t, first.Kind, diverged)
	plant(w)
	hostileCommits()[0].commit(w)
	assert.Equal(t, w.fetch().Conflict.Kind, hasSubmodule)
	for _, args := range append(first.advice().commands, []string{"merge", first.Ref}, []string{"status"}, []string{"diff"}) {
		w.tryRun("git", args...)
		assert.Assert(t, !w.executed(), "git %q ran what was planted", args)
	}
	w.assertNoSubmodule()
}

func TestSubmodulesOnOtherRefsAreReported(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	plant(w)
	w.sandboxGit("switch", "-q", "-c", "side")
	hostileCommits()[0].commit(w)
	w.sandboxGit("checkout", "-q", "--detach")
	w.commit("loose.txt", "x\n")
	w.sandboxGit("switch", "-q", "main")
	w.sandboxGit("branch", "fine", "main")
	w.sandboxGit("add", "-f", "inner")
	w.sandboxGit("stash", "store", w.sandboxGit("commit-tree", "-p", "HEAD", "-p", "side", "-m", "stash", w.sandboxGit("write-tree")))
	w.sandboxGit("reset", "-q")
	w.sandboxGit("checkout", "-q", "--detach", "side")
	w.sandboxGit("commit", "-q", "--allow-empty", "-m", "loose")
	res := w.fetch()
	assert.Assert(t, is.Nil(res.Conflict))
	for ref, place := range map[string]string{"refs/heads/side": "@submodule/side", "refs/stash": "@submodule/@stash", "HEAD": "@submodule/@head"} {
		assert.Equal(t, res.Others[ref], "refs/ralph/ralph-test/"+place)
		assert.Equal(t, res.Submodules[ref], "inner")
	}
	assert.Assert(t, is.Contains(strings.Join(res.Notes(), "\n"),
		`The sandbox's branch "side" is at refs/ralph/ralph-test/@submodule/side: it adds or changes the submodule "inner", so do not merge it or check it out`))
	w.assertNoSubmodule()
	w.git("status")
	assert.Assert(t, !w.executed())
}

func TestPushRejectsABranchWithASubmodule(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.git("branch", "other")
	w.createSandbox()
	plant(w)
	w.sandboxGit("switch", "-q", "other")
	hostileCommits()[0].commit(w)
	w.sandboxGit("switch", "-q", "main")
	w.git("switch", "-q", "other")
	_, err := w.repo.Push(t.Context(), w.sh)
	assert.ErrorContains(t, err, `the sandbox's commits add or change the submodule "inner"`)
	w.assertNoSubmodule()
}

func TestSubmoduleBlocksOnlyItsBranch(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	plant(w)
	hostileCommits()[0].commit(w)
	w.fetch()
	w.git("switch", "-q", "-c", "other")
	w.push()
	assert.Equal(t, w.sandboxGit("branch", "--show-current"), "other")
	w.commit("a.txt", "agent's\n")
	assert.Equal(t, w.fetch().Commits, 1)
}

func TestNamesInNotesAreOneLine(t *testing.T) {
	res := Result{GitDirs: []string{"a\r\x1b[2KAll is well", "b\nHint: run it"}, Unsent: []string{"c\rd"}}
	for _, note := range res.Notes() {
		assert.Check(t, !strings.ContainsAny(note, "\r\n\x1b"), "%q", note)
	}
	c := &Conflict{Kind: fileInTheWay, Detail: "a; touch x\n\x1b[2Kb"}
	assert.Check(t, !strings.ContainsAny(c.Error()+c.Hint(), "\r\n\x1b"), "%q", c.Hint())
}
