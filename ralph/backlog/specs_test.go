package backlog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestSpecFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "specs")
	files, err := SpecFiles(dir)
	assert.NilError(t, err)
	assert.Equal(t, len(files), 0)
	for _, file := range []string{"b.md", "001-login/spec.md", "001-login/deep/notes.md", "a.txt", ".hidden/c.md"} {
		assert.NilError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755))
		assert.NilError(t, os.WriteFile(filepath.Join(dir, file), nil, 0o644))
	}
	files, err = SpecFiles(dir)
	assert.NilError(t, err)
	assert.DeepEqual(t, files, []string{"001-login/deep/notes.md", "001-login/spec.md", "b.md"})
}

// The plan of one feature leaves the tasks of the others alone, however an agent names its spec.
func TestPlansOfFeaturesAreSeparate(t *testing.T) {
	for _, tc := range []struct {
		name         string
		files        []string
		first, other string // specs of two plans
		want         string // of the second plan, or its error
		deleted      int
	}{
		{"paths", []string{"a/spec.md", "b/spec.md"}, "a/spec.md", "b/spec.md", "b/spec.md", 0},
		{"with the directory", []string{"a/spec.md", "b/spec.md"}, "specs/a/spec.md", "./specs/b/spec.md", "b/spec.md", 0},
		{"file names", []string{"a/spec.md", "b/spec.md"}, "a/spec.md", "spec.md", `writing task 'x/01': spec "spec.md" can be a/spec.md or b/spec.md`, 0},
		{"the only one of its name", []string{"a/login.md", "b/pay.md"}, "login.md", "pay.md", "b/pay.md", 0},
		{"the top one", []string{"spec.md", "b/spec.md"}, "b/spec.md", "spec.md", "spec.md", 0},
		{"the same, named in two ways", []string{"a/spec.md"}, "spec.md", "specs/a/spec.md", "a/spec.md", 1},
		{"no files", nil, "auth.md", "auth.md", "auth.md", 1},
		{"none", []string{"a/spec.md"}, "", "", "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore(t)
			plan := func(id, spec string) (SyncSummary, error) {
				return s.Sync(t.Context(), strings.NewReader(`{"id":"`+id+`","t":"T","spec":"`+spec+`"}`), tc.files...)
			}
			_, err := plan("f/01", tc.first)
			assert.NilError(t, err)
			sum, err := plan("x/01", tc.other)
			if err != nil {
				assert.Error(t, err, tc.want)
				assert.Equal(t, get(t, s, "f/01").Status, StatusOpen)
				return
			}
			assert.Equal(t, get(t, s, "x/01").SpecRef, tc.want)
			assert.Equal(t, sum.Deleted, tc.deleted)
		})
	}
}
