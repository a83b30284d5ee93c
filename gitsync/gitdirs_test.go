package gitsync

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// The user's git in a bare repository runs the programs that its configuration names.
func TestGitDirectoriesAreReported(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		files [][]string // of the commands
		want  []string
	}{
		{"bare", [][]string{{"x/y.git/HEAD", "x/y.git/config", "x/y.git/objects/.keep", "x/y.git/refs/.keep"}}, []string{"x/y.git"}},
		{"in two steps", [][]string{{"x/HEAD", "x/objects/.keep"}, {"x/refs/.keep"}}, []string{"x"}},
		{"in another case", [][]string{{"x/Head", "x/objects/.keep", "x/REFS/.keep"}}, []string{"x"}},
		{"two", [][]string{{"a/HEAD", "a/objects/.keep", "a/refs/.keep", "a/b/HEAD", "a/b/objects/.keep", "a/b/refs/.keep"}}, []string{"a", "a/b"}},
		{"incomplete", [][]string{{"x/HEAD", "x/objects/.keep", "y/refs/.keep"}}, nil},
		{"the root", [][]string{{"HEAD", "objects/.keep", "refs/.keep"}}, nil},
		{"an old one", [][]string{{"x/HEAD", "x/objects/.keep", "x/refs/.keep"}, {"x/README", "y"}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newSandbox(t)
			var res Result
			for _, files := range tc.files {
				w.start()
				for _, name := range files {
					w.writeInside(name, "x")
				}
				w.commitAll("agent")
				res = w.fetch()
			}
			assert.DeepEqual(t, res.GitDirs, tc.want)
			if len(tc.want) > 0 {
				assert.Check(t, is.Contains(strings.Join(res.Notes(), "\n"), "Warning: new git directories in the working tree: git in them runs programs that they configure: "+tc.want[0]))
			}
		})
	}
}
