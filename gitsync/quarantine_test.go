package gitsync

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/gitsync/additions"
)

// added returns what incoming commits add: lines by path and number.
func added(t *testing.T, in Incoming) map[string]string {
	t.Helper()
	found := map[string]string{}
	eachAdded(t, in, func(a additions.File, number int, line string) { found[fmt.Sprintf("%s:%d", a.Path, number)] = line })
	return found
}

// eachAdded calls a function for each line that is added.
func eachAdded(t *testing.T, in Incoming, line func(a additions.File, number int, line string)) {
	t.Helper()
	dir := t.TempDir()
	files, err := in.Write(t.Context(), dir)
	assert.NilError(t, err)
	for name, a := range files {
		content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		assert.NilError(t, err)
		for i, text := range strings.Split(strings.TrimSuffix(string(content), "\n"), "\n") {
			if text != "" {
				line(a, a.Line(i+1), text)
			}
		}
	}
}

// assertNotStored asserts that the user's repository lacks a commit, and has no quarantine.
func (w *fixture) assertNotStored(commit string) {
	w.t.Helper()
	w.assertMissing(commit)
	left, err := filepath.Glob(filepath.Join(w.root, ".git", "objects", "tmp_objdir-*"))
	assert.NilError(w.t, err)
	assert.Equal(w.t, len(left), 0)
}

func TestGateHoldsCommitsBack(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	before := w.tip("main")
	tip := w.commit("a.txt", "a\nsecret\n")
	pass, asked := false, 0
	gated := w.repo.WithGate(func(_ context.Context, in Incoming) (bool, error) {
		asked++
		assert.DeepEqual(t, in.Commits, []string{tip})
		assert.DeepEqual(t, added(t, in), map[string]string{"a.txt:2": "secret"})
		w.assertMissing(tip)
		return pass, nil
	})
	held := func(repo *Repo) {
		t.Helper()
		_, err := repo.Fetch(t.Context(), w.sh, true)
		h, ok := errors.AsType[*HeldError](err)
		assert.Assert(t, ok, "%v", err)
		assert.Equal(t, h.Sandbox, "ralph-test")
		assert.Equal(t, w.tip("main"), before)
		w.assertNotStored(tip)
	}
	held(gated)
	assert.Assert(t, !Saved(w.repo.stateDir, "ralph-test"))
	held(w.repo) // a command without a gate fetches nothing
	_, err := w.repo.Push(t.Context(), w.sh)
	assert.ErrorContains(t, err, "were held back")
	_, _, err = gated.Follow(t.Context(), w.sh, "")
	assert.ErrorContains(t, err, "were held back")
	assert.Equal(t, asked, 2)

	pass = true
	res, err := gated.Fetch(t.Context(), w.sh, true)
	assert.NilError(t, err)
	assert.Equal(t, res.Commits, 1)
	assert.Equal(t, w.tip("main"), tip)
	w.assertClean()
	w.commit("b.txt", "more\n")
	assert.Equal(t, w.fetch().Commits, 1, "nothing is held any more")
}

// assertMissing asserts that the user's repository lacks a commit.
func (w *fixture) assertMissing(commit string) {
	w.t.Helper()
	_, err := w.repo.git.Output(w.t.Context(), nil, "cat-file", "-e", commit)
	assert.Assert(w.t, err != nil, "the repository has %s", commit)
}

func TestFailedGateHoldsCommitsBack(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	tip := w.commit("a.txt", "a\nb\n")
	_, err := w.repo.WithGate(func(context.Context, Incoming) (bool, error) { return true, errors.New("no scanner") }).Fetch(t.Context(), w.sh, true)
	assert.Error(t, err, "no scanner")
	w.assertNotStored(tip)
	_, err = w.repo.Fetch(t.Context(), w.sh, true)
	assert.ErrorContains(t, err, "were held back", "a command without a gate fetches nothing that was held back")
	w.assertNotStored(tip)
	res, err := w.repo.WithGate(func(context.Context, Incoming) (bool, error) { return true, nil }).Fetch(t.Context(), w.sh, true)
	assert.NilError(t, err)
	assert.Equal(t, res.Commits, 1)
}

func TestRewrittenCommitsPassTheGate(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.commit("a.txt", "secret\n")
	gated := w.repo.WithGate(func(_ context.Context, in Incoming) (bool, error) {
		clean := true
		eachAdded(t, in, func(_ additions.File, _ int, line string) { clean = clean && line != "secret" })
		return clean, nil
	})
	_, err := gated.Fetch(t.Context(), w.sh, true)
	assert.ErrorContains(t, err, "were held back")
	w.commit("a.txt", "clean\n") // but the secret is one commit before
	_, err = gated.Fetch(t.Context(), w.sh, true)
	assert.ErrorContains(t, err, "were held back")
	w.sandboxGit("reset", "-q", "--soft", "HEAD~2")
	w.sandboxGit("commit", "-q", "-m", "agent: clean")
	res, err := gated.Fetch(t.Context(), w.sh, true)
	assert.NilError(t, err)
	assert.Equal(t, res.Commits, 1)
}

// A gate sees all lines that are new, and no others, whatever an agent does.
func TestAddedLinesOfCommits(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("many.txt", strings.Repeat("old\n", 8))
	w.git("add", "-A")
	w.git("commit", "-qm", "many")
	w.createSandbox()
	w.sandboxGit("switch", "-qc", "side")
	w.commit("side.txt", "side\n")
	w.sandboxGit("switch", "-q", "main")
	w.writeInside(".gitattributes", "* -text -diff diff=x\n*.bin binary\n")
	w.commit("many.txt", "old\nold\nnew 3\n"+strings.Repeat("old\n", 4)+"new 8")
	w.sandboxGit("add", "-A")
	w.sandboxGit("commit", "-qm", "attributes")
	w.commit("x.bin", "\x00binary\n")
	w.commit("a b/\"quoted\"\t.txt", "odd\n")
	w.commit("A.TXT", "upper\n")
	w.commit("trick.txt", "++ b/other.txt\n@@ -1 +1 @@\n"+strings.Repeat("0", 40)+"\n")
	w.sandboxGit("rm", "-q", "dir/c.txt")
	w.sandboxGit("commit", "-qm", "less")
	w.sandboxGit("merge", "-q", "--no-commit", "side")
	w.writeInside("side.txt", "side\nin the merge\n")
	w.sandboxGit("add", "-A")
	w.sandboxGit("commit", "-qm", "merge")
	w.writeInside("a.txt", "a\nstashed\n")
	w.sandboxGit("stash", "-q")
	var got map[string]string
	_, err := w.repo.WithGate(func(_ context.Context, in Incoming) (bool, error) {
		got = added(t, in)
		return true, nil
	}).Fetch(t.Context(), w.sh, true)
	assert.NilError(t, err)
	assert.DeepEqual(t, got, map[string]string{
		".gitattributes:1": "* -text -diff diff=x", ".gitattributes:2": "*.bin binary",
		"many.txt:3": "new 3", "many.txt:8": "new 8", "x.bin:1": "\x00binary",
		"a b/\"quoted\"\t.txt:1": "odd", "A.TXT:1": "upper",
		"trick.txt:1": "++ b/other.txt", "trick.txt:2": "@@ -1 +1 @@", "trick.txt:3": strings.Repeat("0", 40),
		"side.txt:1": "side", "side.txt:2": "in the merge", "a.txt:2": "stashed",
	})
}

// Attributes of the agent do not matter.
func TestAddedLinesOfMerges(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, attributes, extra string }{
		{"text", "", ""},
		{"no text for an attribute", "*.txt -diff\n", ""},
		{"no text for a byte", "", "\x00"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newRepo(t)
			w.write(".gitattributes", tc.attributes)
			w.write("m.txt", tc.extra+"1\n2\n3\n4\n5\n")
			w.git("add", "-A")
			w.git("commit", "-qm", "more")
			w.createSandbox()
			w.sandboxGit("branch", "side")
			w.commit("m.txt", tc.extra+"1\n2\n3\n4\n5\nmain\n")
			main := w.commit("only.txt", "only main\n")
			w.sandboxGit("switch", "-q", "side")
			w.commit("m.txt", tc.extra+"1\nside\n2\n3\n4\n5\n")
			w.sandboxGit("merge", "-q", "--no-commit", "-s", "ours", main)
			w.writeInside("only.txt", "only main\n")
			w.writeInside("m.txt", tc.extra+"1\nside\n2\nnew 4\n3\n4\nnew 7\nnew 8\n5\nmain\n")
			w.writeInside("b.txt", "b\nnew\n")
			w.sandboxGit("add", "-A")
			w.sandboxGit("commit", "-qm", "merge")
			merge := w.sandboxGit("rev-parse", "HEAD")
			w.sandboxGit("merge", "-q", "-s", "ours", "-m", "nothing new", w.sandboxGit("commit-tree", "-p", main, "-m", "x", main+"^{tree}"))
			got := map[string]string{}
			_, err := w.repo.WithGate(func(_ context.Context, in Incoming) (bool, error) {
				eachAdded(t, in, func(a additions.File, number int, line string) {
					if a.Commit == merge {
						got[fmt.Sprintf("%s:%d", a.Path, number)] = line
					} else {
						assert.Assert(t, !strings.HasPrefix(line, "new"))
					}
				})
				return true, nil
			}).Fetch(t.Context(), w.sh, true)
			assert.NilError(t, err)
			assert.DeepEqual(t, got, map[string]string{"m.txt:4": "new 4", "m.txt:7": "new 7", "m.txt:8": "new 8", "b.txt:2": "new"})
		})
	}
}

func TestOctopusMergeOf65Parents(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	w.commit("a.txt", "a\nsecret\n")
	args := []string{"commit-tree", "-m", "octopus"}
	for i := range 65 {
		args = append(args, "-p", w.sandboxGit("commit-tree", "-m", fmt.Sprint(i), "-p", "HEAD~", "HEAD~^{tree}"))
	}
	w.sandboxGit("reset", "-q", "--soft", w.sandboxGit(append(args, "HEAD^{tree}")...))
	var got map[string]string
	_, err := w.repo.WithGate(func(_ context.Context, in Incoming) (bool, error) {
		got = added(t, in)
		return true, nil
	}).Fetch(t.Context(), w.sh, true)
	assert.NilError(t, err)
	assert.DeepEqual(t, got, map[string]string{"a.txt:2": "secret"})
}
