package additions

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestPathsThatClashGetAnotherName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	assert.NilError(t, err)
	w := &writer{root: root, left: maxAdded, files: map[string]File{}}
	patch := "diff\n+++ b/x\n@@ -0,0 +1 @@\n+one\n+++ b/x/y\n@@ -0,0 +7 @@\n+two\n+++ b/../../up\n@@ -0,0 +1 @@\n+three\n"
	assert.NilError(t, readPatches(bufio.NewReader(strings.NewReader(strings.Repeat("1", 40)+"\n"+patch)), w))
	assert.NilError(t, w.closeFile())
	paths := map[string]string{}
	for name, a := range w.files {
		paths[name] = a.Path
	}
	assert.DeepEqual(t, paths, map[string]string{"000001/x": "x", "@1": "x/y", "@2": "../../up"})
	assert.Equal(t, w.files["@1"].Line(1), 7)
}

func TestAdditionsAreLimited(t *testing.T) {
	t.Parallel()
	root, err := os.OpenRoot(t.TempDir())
	assert.NilError(t, err)
	w := &writer{root: root, left: minAdded + 3, files: map[string]File{}}
	err = readPatches(bufio.NewReader(strings.NewReader("+++ b/x\n@@ -0,0 +1 @@\n+long\n")), w)
	assert.Assert(t, is.ErrorContains(err, "more than"))
	assert.NilError(t, w.closeFile())
}

func FuzzReadPatches(f *testing.F) {
	f.Add("1111111111111111111111111111111111111111\n+++ b/x\n@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file\n")
	f.Add("+++ \"b/\\303x\"\n@@ -1 +1,2 @@\n+one\n two\n-three\n")
	f.Add(strings.Repeat("1111111111111111111111111111111111111111\n+++ b/x\n@@ -0,0 +1,2 @@\n+one\n+two\n", 3))
	f.Fuzz(func(t *testing.T, patch string) {
		root, err := os.OpenRoot(t.TempDir())
		assert.NilError(t, err)
		w := &writer{root: root, left: 1 << 20, merges: map[string]int{strings.Repeat("1", 40): 3}, files: map[string]File{}}
		_ = readPatches(bufio.NewReader(strings.NewReader(patch)), w)
		assert.NilError(t, w.closeFile())
		for _, a := range w.files {
			assert.Assert(t, len(a.starts) > 0)
		}
	})
}
