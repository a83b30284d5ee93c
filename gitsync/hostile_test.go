package gitsync

import (
	"bytes"
	"compress/zlib"
	"context" //nolint:gosec // git's own names of objects
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// Neither our git nor the user's runs what an agent plants in its git directory and in
// the working tree.
func TestPlantedProgramsAreNotRun(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	marker := filepath.Join(w.dir, "marker")
	run := "touch " + marker + "; false"
	for _, hook := range []string{"post-checkout", "post-commit", "pre-commit", "reference-transaction", "post-index-change", "pre-auto-gc", "post-merge"} {
		path := filepath.Join(w.gitDir, "hooks", hook)
		writeProgram(t, path, "#!/bin/sh\n"+run+"\n")
	}
	off := []string{"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "filter.x.clean=cat", "-c", "filter.x.required=false", "-c", "filter.x.process="}
	hooksOff := func(args ...string) string { return w.sandboxGit(append(append([]string(nil), off...), args...)...) }
	w.writeInside(".gitattributes", "* filter=x diff=x merge=x\n")
	w.writeInside("nested/HEAD", "ref: refs/heads/main\n")
	w.writeInside("nested/config", "[core]\n\tbare = true\n\tfsmonitor = "+run+"\n")
	w.writeInside("nested/objects/.keep", "")
	w.writeInside("nested/refs/.keep", "")
	w.writeInside("inner/a.txt", "x")
	w.run(filepath.Join(w.work, "inner"), nil, "git", "init", "-q")
	w.run(filepath.Join(w.work, "inner"), nil, "git", "config", "core.fsmonitor", run)
	for _, s := range [][2]string{
		{"core.fsmonitor", run},
		{"filter.x.clean", run},
		{"filter.x.process", run},
		{"filter.x.required", "true"},
		{"diff.x.command", run},
		{"diff.x.textconv", run},
		{"merge.x.driver", run},
		{"core.hooksPath", filepath.Join(w.gitDir, "hooks")},
		{"include.path", "../evil"},
		{"uploadpack.packObjectsHook", run},
		{"core.sshCommand", run},
		{"core.alternateRefsCommand", run},
		{"gc.recentObjectsHook", run},
	} {
		w.sandboxGit("config", s[0], s[1])
	}
	assert.NilError(t, os.WriteFile(filepath.Join(w.gitDir, "commondir.evil"), []byte("../evil"), 0o644))
	hooksOff("add", "a.txt", ".gitattributes", "nested")
	hooksOff("commit", "-q", "-m", "agent")
	quiet := func(ctx context.Context, script string, args []string, stdin io.Reader, stdout io.Writer) error {
		err := w.sh(ctx, script, args, stdin, stdout)
		_ = os.Remove(marker) // in the sandbox it may run what it likes
		return err
	}
	res, err := w.repo.Fetch(t.Context(), quiet, true)
	assert.NilError(t, err)
	assert.Equal(t, res.Commits, 1)
	w.git("status", "--porcelain")
	w.git("diff", "HEAD")
	w.git("log", "-p", "-2")
	w.git("commit", "-q", "--allow-empty", "-m", "user")
	_, err = w.repo.Push(t.Context(), quiet)
	assert.NilError(t, err)
	w.git("status", "--porcelain")
	assert.NilError(t, w.repo.Check(t.Context()))
	_, err = os.Stat(marker)
	assert.Assert(t, os.IsNotExist(err), "something was run")
}

func TestUnusualBranchNames(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	tip := w.commit("a.txt", "x\n")
	marker := filepath.Join(w.dir, "marker")
	odd := []string{
		"$(touch${IFS}" + marker + ")", "x\u3000y", strings.Repeat("n", 200) + "/" + strings.Repeat("m", 99), "a;b", "MAIN", "a/@head", "@base", "x.lock.y", "日本", "main.",
	}
	for _, name := range odd {
		err := os.MkdirAll(filepath.Dir(filepath.Join(w.gitDir, "refs/heads", name)), 0o755)
		assert.NilError(t, err)
		assert.NilError(t, os.WriteFile(filepath.Join(w.gitDir, "refs/heads", name), []byte(tip+"\n"), 0o644))
	}
	res := w.fetch()
	assert.Equal(t, res.Commits, 1)
	for ref := range strings.Lines(w.git("for-each-ref", "--format=%(refname)")) {
		ref = strings.TrimSpace(ref)
		for _, r := range ref {
			assert.Assert(t, r < 0x80 && r > ' ', ref)
		}
		assert.Assert(t, len(ref) < 100 && !strings.Contains(ref, "$") && !strings.Contains(ref, ";"), ref)
	}
	assert.Equal(t, res.Others["refs/heads/MAIN"][:len("refs/ralph/ralph-test/@renamed-")], "refs/ralph/ralph-test/@renamed-")
	for _, note := range res.Notes() {
		assert.Assert(t, !strings.Contains(note, "\u3000"), note)
	}
	_, err := os.Stat(marker)
	assert.Assert(t, os.IsNotExist(err))
}

// object is an object of a pack.
type object struct {
	kind    byte // 1 commit, 2 tree, 3 blob, 4 tag
	content []byte
}

func (o object) id() string {
	names := []string{"", "commit", "tree", "blob", "tag"}
	return fmt.Sprintf("%x", sha1.Sum(append([]byte(fmt.Sprintf("%s %d\x00", names[o.kind], len(o.content))), o.content...))) //nolint:gosec // as above
}

// bundleOf forges a listing and a bundle.
func bundleOf(t *testing.T, tip string, objects ...object) []byte {
	t.Helper()
	head := fmt.Sprintf("%s refs/heads/main\n%s HEAD refs/heads/main\n\n# v2 git bundle\n%s refs/heads/main\n\n", tip, tip, tip)
	return append([]byte(head), packOf(t, objects...)...)
}

func packOf(t *testing.T, objects ...object) []byte {
	t.Helper()
	var pack bytes.Buffer
	pack.WriteString("PACK")
	_ = binary.Write(&pack, binary.BigEndian, []uint32{2, uint32(len(objects))})
	for _, o := range objects {
		n := len(o.content)
		b := o.kind<<4 | byte(n&15)
		for n >>= 4; n > 0; n >>= 7 {
			pack.WriteByte(b | 0x80)
			b = byte(n & 0x7f)
		}
		pack.WriteByte(b)
		z := zlib.NewWriter(&pack)
		_, err := z.Write(o.content)
		assert.NilError(t, errors.Join(err, z.Close()))
	}
	sum := sha1.Sum(pack.Bytes()) //nolint:gosec // as above
	pack.Write(sum[:])
	return pack.Bytes()
}

func tree(t *testing.T, mode, name, id string) object {
	t.Helper()
	var raw []byte
	_, err := fmt.Sscanf(id, "%x", &raw)
	assert.NilError(t, err)
	return object{2, append([]byte(mode+" "+name+"\x00"), raw...)}
}

func TestMalformedObjectsAreRejected(t *testing.T) {
	t.Parallel()
	blob := object{3, []byte("x\n")}
	const who = "author a <a@b> 1700000000 +0000\ncommitter a <a@b> 1700000000 +0000\n\nm\n"
	of := func(tr object, parent string) object {
		return object{1, []byte("tree " + tr.id() + "\nparent " + parent + "\n" + who)}
	}
	for _, tc := range []struct {
		name string
		make func(parent string) (tip string, objects []object)
		want string
	}{
		{".git in a tree", func(p string) (string, []object) {
			tr := tree(t, "100644", ".git", blob.id())
			c := of(tr, p)
			return c.id(), []object{blob, tr, c}
		}, "git unpack-objects: "},
		{"a way out of a tree", func(p string) (string, []object) {
			tr := tree(t, "100644", "..", blob.id())
			c := of(tr, p)
			return c.id(), []object{blob, tr, c}
		}, "git unpack-objects: "},
		{"a slash in a name", func(p string) (string, []object) {
			tr := tree(t, "100644", "a/b", blob.id())
			c := of(tr, p)
			return c.id(), []object{blob, tr, c}
		}, "git unpack-objects: "},
		{"a commit without an author", func(p string) (string, []object) {
			tr := tree(t, "100644", "a", blob.id())
			c := object{1, []byte("tree " + tr.id() + "\nparent " + p + "\n\nm\n")}
			return c.id(), []object{blob, tr, c}
		}, "git unpack-objects: "},
		{"a missing blob", func(p string) (string, []object) {
			tr := tree(t, "100644", "a", blob.id())
			c := of(tr, p)
			return c.id(), []object{tr, c}
		}, "git unpack-objects: "},
		{"a missing commit", func(p string) (string, []object) {
			return strings.Repeat("1", 40), []object{blob}
		}, "missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newSandbox(t)
			before, store := w.git("for-each-ref"), w.git("count-objects", "-v")
			tip, objects := tc.make(w.tip("main"))
			answer := bundleOf(t, tip, objects...)
			_, err := w.repo.Fetch(t.Context(), func(_ context.Context, _ string, _ []string, _ io.Reader, stdout io.Writer) error {
				_, err := stdout.Write(answer)
				return err
			}, true)
			assert.ErrorContains(t, err, tc.want)
			assert.Equal(t, w.git("for-each-ref"), before)
			assert.Equal(t, w.git("count-objects", "-v"), store, "what is refused leaves nothing")
			w.assertClean()
			w.git("fsck", "--strict")
		})
	}
	t.Run("sound ones are taken", func(t *testing.T) {
		w := newSandbox(t)
		tr := tree(t, "100644", "a", blob.id())
		c := of(tr, w.tip("main"))
		answer := bundleOf(t, c.id(), blob, tr, c)
		_, err := w.repo.Fetch(t.Context(), func(_ context.Context, _ string, _ []string, _ io.Reader, stdout io.Writer) error {
			_, err := stdout.Write(answer)
			return err
		}, true)
		assert.NilError(t, err)
		assert.Equal(t, w.tip("refs/ralph/ralph-test/main"), c.id())
	})
}

func TestGateChecksCommitsMissingFromTheBundle(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, named, first, then string }{
		{"another is named", "ONE refs/heads/x\n", "ONE refs/heads/x\nTWO refs/heads/main\n", ""},
		{"none is named", "", "TWO refs/heads/main\n", ""},
		{"it gets a ref later", "ONE refs/heads/x\n", "ONE refs/heads/x\n", "TWO refs/heads/main\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newSandbox(t)
			blob := object{3, []byte("secret\n")}
			tr := tree(t, "100644", "a", blob.id())
			commit := func(message string) object {
				return object{1, []byte("tree " + tr.id() + "\nparent " + w.tip("main") + "\nauthor a <a@b> 1700000000 +0000\ncommitter a <a@b> 1700000000 +0000\n\n" + message + "\n")}
			}
			one, two := commit("one"), commit("two")
			named := strings.NewReplacer("ONE", one.id(), "TWO", two.id())
			var seen []string
			gated := w.repo.WithGate(func(_ context.Context, in Incoming) (bool, error) {
				seen = append(seen, in.Commits...)
				for _, id := range in.Commits {
					assert.DeepEqual(t, added(t, Incoming{git: in.git, Commits: []string{id}}), map[string]string{"a:1": "secret"})
				}
				return !slices.Contains(in.Commits, two.id()), nil
			})
			say := func(answer string) error {
				_, err := gated.Fetch(t.Context(), func(_ context.Context, _ string, _ []string, _ io.Reader, stdout io.Writer) error {
					_, err := io.WriteString(stdout, named.Replace(answer))
					return err
				}, true)
				return err
			}
			err := say(tc.first + "- HEAD refs/heads/main\n\n# v2 git bundle\n" + tc.named + "\n" + string(packOf(t, blob, tr, one, two)))
			if tc.then != "" {
				assert.NilError(t, err)
				err = say(tc.then + "- HEAD refs/heads/main\n\n")
			}
			assert.Assert(t, is.Contains(seen, two.id()))
			assert.ErrorContains(t, err, "held back")
			assert.Assert(t, !strings.Contains(w.git("for-each-ref"), two.id()))
		})
	}
}

// A gate sees commits only.
func TestRefsMustBeCommits(t *testing.T) {
	t.Parallel()
	blob := object{3, []byte("secret\n")}
	tr := tree(t, "100644", "a", blob.id())
	tag := object{4, []byte("object " + tr.id() + "\ntype tree\ntag x\ntagger a <a@b> 1700000000 +0000\n\nm\n")}
	for _, tip := range []object{blob, tr, tag} {
		w := newSandbox(t)
		before := w.git("for-each-ref")
		answer := tip.id() + " refs/heads/x\n- HEAD refs/heads/main\n\n# v2 git bundle\n\n" + string(packOf(t, blob, tr, tag))
		res, err := w.repo.Fetch(t.Context(), func(_ context.Context, _ string, _ []string, _ io.Reader, stdout io.Writer) error {
			_, err := io.WriteString(stdout, answer)
			return err
		}, true)
		assert.NilError(t, err)
		assert.Check(t, is.Contains(res.Refused["refs/heads/x"], "is not a commit"))
		assert.Equal(t, w.git("for-each-ref"), before)
		w.assertNotStored(tip.id())
	}
}

func TestInvalidListings(t *testing.T) {
	t.Parallel()
	w := newSandbox(t)
	id := strings.Repeat("a", 40)
	for _, tc := range []struct{ answer, want string }{
		{"", "unexpected EOF"},
		{"nonsense\n\n", "unexpected line"},
		{id + " refs/heads/a", "unexpected EOF"},
		{id + " refs/tags/a\n\n", "unexpected line"},
		{"--upload-pack=x refs/heads/a\n\n", "unexpected line"},
		{id + " HEAD refs/heads/main\n\nnonsense\n", "not a bundle"},
		{id + " HEAD refs/heads/main\n\n# v3 git bundle\n@filter=blob:none\n\n", "unexpected line"},
		{id + " HEAD refs/heads/main\n\n# v2 git bundle\n\n", "not a pack"},
		{id + " HEAD refs/heads/main\n\n# v2 git bundle\n\nPACKxxxxxxxxxxxxxx", "invalid pack: "},
		{strings.Repeat("x", 9<<20), "bytes of names"},
	} {
		_, err := w.repo.Fetch(t.Context(), func(_ context.Context, _ string, _ []string, _ io.Reader, stdout io.Writer) error {
			_, err := io.WriteString(stdout, tc.answer)
			return err
		}, true)
		assert.Check(t, is.ErrorContains(err, tc.want), tc.answer[:min(len(tc.answer), 80)])
	}
	w.assertClean()

	// A branch that is said to be where nothing is.
	_, err := w.repo.Fetch(t.Context(), func(_ context.Context, _ string, _ []string, _ io.Reader, stdout io.Writer) error {
		_, err := io.WriteString(stdout, id+" refs/heads/main\n"+id+" HEAD refs/heads/main\n\n")
		return err
	}, true)
	assert.ErrorContains(t, err, "is missing")
}
