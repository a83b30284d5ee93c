package gitsync

import (
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

const lfsPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"

// newFiltered creates a sandbox of a repository with files of filters.
func newFiltered(t *testing.T, configured bool) *fixture {
	t.Helper()
	w := emptyRepo(t)
	w.write(".gitattributes", "*.bin filter=lfs -text\n*.key filter=git-crypt\n*.up filter=up\n*.low filter=_low.1\n")
	w.write("a.bin", lfsPointer)
	w.write("old.bin", "raw\n")
	w.write("a.up", "UP\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "first")
	w.git("checkout", "-q", "-b", "other")
	w.write("other.up", "OTHER\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "other")
	w.git("checkout", "-q", "main")
	if configured {
		w.git("config", "filter.lfs.process", "git-lfs-is-not-run")
		w.git("config", "filter.git-crypt.clean", "git-crypt-is-not-run")
		w.git("config", "filter.up.clean", "tr-is-not-run")
		w.git("config", "filter._low.1.clean", "tr-is-not-run")
	}
	return w.createSandbox()
}

func (w *fixture) commitInside(name, content string) {
	w.t.Helper()
	w.writeInside(name, content)
	w.sandboxGit("add", "-A")
	w.sandboxGit("commit", "-q", "-m", "agent: "+name)
}

// Content that a filter of the user should have encoded does not get on the user's branch.
func TestUnencodedContentIsRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		commit func(w *fixture)
		path   string // that is refused
		filter string
	}{
		{"files without a filter", func(w *fixture) { w.commitInside("a.txt", "a\n") }, "", ""},
		{"a tracked file", func(w *fixture) { w.commitInside("a.bin", "raw\n") }, "a.bin", "lfs"},
		{"a new file", func(w *fixture) { w.commitInside("d/new.bin", "raw\n") }, "d/new.bin", "lfs"},
		{"a file that a later commit removes", func(w *fixture) {
			w.commitInside("new.bin", "raw\n")
			w.sandboxGit("rm", "-q", "new.bin")
			w.sandboxGit("commit", "-q", "-m", "agent: removed")
		}, "new.bin", "lfs"},
		{"a pointer", func(w *fixture) { w.commitInside("new.bin", lfsPointer) }, "", ""},
		{"an empty file", func(w *fixture) { w.commitInside("new.bin", "") }, "", ""},
		{"a removed file", func(w *fixture) {
			w.sandboxGit("rm", "-q", "old.bin")
			w.sandboxGit("commit", "-q", "-m", "agent: removed")
		}, "", ""},
		{"plain content for git-crypt", func(w *fixture) { w.commitInside("new.key", "secret\n") }, "new.key", "git-crypt"},
		{"encrypted content", func(w *fixture) { w.commitInside("new.key", "\x00GITCRYPT\x00xxx") }, "", ""},
		{"another filter", func(w *fixture) { w.commitInside("new.up", "low\n") }, "new.up", "up"},
		{"a filter with an unusual name", func(w *fixture) { w.commitInside("new.low", "LOW\n") }, "new.low", "_low.1"},
		{"attributes of the sandbox", func(w *fixture) {
			w.writeInside("d/.gitattributes", "*.psd filter=lfs\n")
			w.commitInside("d/a.psd", "raw\n")
		}, "d/a.psd", "lfs"},
		{"a filter that the user does not have", func(w *fixture) {
			w.writeInside(".gitattributes", "*.txt filter=none\n")
			w.commitInside("a.txt", "raw\n")
		}, "", ""},
		{"a merge of a branch of the user", func(w *fixture) {
			w.sandboxGit("fetch", "-q", w.root, "other")
			w.sandboxGit("merge", "-q", "--no-ff", "--no-edit", "FETCH_HEAD")
		}, "", ""},
		{"a merge with raw content", func(w *fixture) {
			w.sandboxGit("fetch", "-q", w.root, "other")
			w.sandboxGit("merge", "-q", "--no-ff", "--no-commit", "FETCH_HEAD")
			w.commitInside("new.bin", "raw\n")
		}, "new.bin", "lfs"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newFiltered(t, true)
			before := w.tip("main")
			tc.commit(w)
			c := w.fetch().Conflict
			if tc.path == "" {
				assert.Assert(t, c == nil, "%v", c)
				assert.Equal(t, w.tip("main"), w.sandboxGit("rev-parse", "HEAD"))
				return
			}
			assert.Assert(t, c != nil)
			assert.Equal(t, c.Error(), `the sandbox's commits change "`+tc.path+`", which your git encodes with the filter "`+tc.filter+
				`", but the sandbox cannot: your branch main was not fast-forwarded, the sandbox's commits are at refs/ralph/ralph-test/main`)
			assert.Check(t, is.Contains(c.Hint(), `view them with "git log --stat refs/ralph/ralph-test/main"`))
			assert.Check(t, c.FixedInSandbox())
			assert.Equal(t, w.tip("main"), before)
			left, err := filepath.Glob(filepath.Join(w.root, ".git", "objects", "tmp_*"))
			assert.NilError(t, err)
			assert.Equal(t, len(left), 0)
		})
	}
}

// info/attributes of the user count, too.
func TestUnencodedContentByInfoAttributes(t *testing.T) {
	t.Parallel()
	w := newFiltered(t, true)
	w.write(".git/info/attributes", "*.txt filter=up\n")
	w.commitInside("a.txt", "raw\n")
	assert.Equal(t, w.fetch().Conflict.Kind, unencoded)
}

// So do those for all repositories, whatever file has them.
func TestUnencodedContentByGlobalAttributes(t *testing.T) {
	for _, name := range []string{"", "attributes of mine"} {
		file := filepath.Join(setHome(t), ".config", "git", "attributes")
		w := newFiltered(t, true)
		if name != "" {
			file = filepath.Join(w.dir, name)
			w.git("config", "core.attributesFile", file)
		}
		w.writeIn(filepath.Dir(file), filepath.Base(file), "*.txt filter=up\n")
		w.openRepo()
		w.commitInside("a.txt", "raw\n")
		c := w.fetch().Conflict
		assert.Assert(t, c != nil)
		assert.Equal(t, c.Kind, unencoded)
	}
}

// Commits without the attributes, which later ones restore, do not bring it either.
func TestUnencodedContentInTwoFetches(t *testing.T) {
	t.Parallel()
	w := newFiltered(t, true)
	w.sandboxGit("rm", "-q", ".gitattributes")
	w.commitInside("new.bin", "raw\n")
	assert.Equal(t, w.fetch().Conflict.Kind, unencoded)
}

// Once the commits are as the user's git would have made them, the branch follows.
func TestUnencodedContentIsRemovedInTheSandbox(t *testing.T) {
	t.Parallel()
	w := newFiltered(t, true)
	w.commitInside("new.bin", "raw\n")
	w.commitInside("a.txt", "a\n")
	assert.Equal(t, w.fetch().Conflict.Kind, unencoded)
	_, err := w.repo.Push(t.Context(), w.sh)
	assert.ErrorContains(t, err, `which your git encodes with the filter "lfs"`)
	w.sandboxGit("reset", "-q", "--soft", "HEAD~2")
	w.sandboxGit("rm", "-q", "--cached", "new.bin")
	w.sandboxGit("commit", "-q", "-m", "agent: a.txt")
	assert.Equal(t, w.fetch().Commits, 1)
	w.push()
}

// Without filters, the commits are not read.
func TestNoFilterCostsNothing(t *testing.T) {
	t.Parallel()
	w := newFiltered(t, false)
	w.commitInside("new.bin", "raw\n")
	raw, err := w.repo.unencoded(t.Context(), "", "no such commit")
	assert.NilError(t, err)
	assert.Assert(t, raw == nil)
	assert.Equal(t, w.fetch().Commits, 1)
}

// The sandbox knows the names of the user's filters, and no program.
func TestSandboxKnowsFilters(t *testing.T) {
	t.Parallel()
	w := newFiltered(t, true)
	assert.Equal(t, w.sandboxGit("config", "--get-regexp", `^filter\.`), "filter.lfs.required false\nfilter.git-crypt.required false\nfilter.up.required false\nfilter._low.1.required false")
}

// A change of a tracked file that the user's filter encodes is seen in a clone, and not left out of a
// commit in silence.
func TestChangeOfAFilteredFileIsSeen(t *testing.T) {
	t.Parallel()
	w := newFiltered(t, true)
	n, err := w.repo.CountEdits(t.Context(), w.sh)
	assert.NilError(t, err)
	assert.Equal(t, n, 0)

	w.writeInside("a.bin", "raw\n")
	w.writeInside("a.up", "low\n")
	n, err = w.repo.CountEdits(t.Context(), w.sh)
	assert.NilError(t, err)
	assert.Equal(t, n, 2)

	w.sandboxGit("commit", "-qam", "agent: raw")
	c := w.fetch().Conflict
	assert.Assert(t, c != nil)
	assert.Equal(t, c.Kind, unencoded)
}
