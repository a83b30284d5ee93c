package gitrepo

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

func TestExclude(t *testing.T) {
	isolate(t)
	for _, tc := range []struct {
		name, exclude, gitignore, want string
	}{
		{name: "nothing yet", want: "report.html\n"},
		{name: "other lines", exclude: "# mine\n*.o\n", want: "# mine\n*.o\nreport.html\n"},
		{name: "no final newline", exclude: "*.o", want: "*.o\nreport.html\n"},
		{name: "ignored there", exclude: "*.html\n", want: "*.html\n"},
		{name: "ignored elsewhere", gitignore: "report.html\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := tempDir(t)
			gitIn(t, root, "init", "-q", "-b", "main")
			gitIn(t, root, "remote", "add", "origin", "https://h/a/b")
			gitIn(t, root, "commit", "-q", "--allow-empty", "-m", "first")
			gitIn(t, root, "worktree", "add", "-q", "linked")
			file := filepath.Join(root, ".git", "info", "exclude")
			assert.NilError(t, os.RemoveAll(filepath.Dir(file)))
			if tc.exclude != "" {
				assert.NilError(t, os.Mkdir(filepath.Dir(file), 0o700))
				assert.NilError(t, os.WriteFile(file, []byte(tc.exclude), 0o600))
			}
			linked := filepath.Join(root, "linked")
			sub := filepath.Join(linked, "sub")
			assert.NilError(t, os.Mkdir(sub, 0o700))
			if tc.gitignore != "" {
				assert.NilError(t, os.WriteFile(filepath.Join(linked, ".gitignore"), []byte(tc.gitignore), 0o600))
			}
			w, err := Detect(t.Context(), sub, noenv)
			assert.NilError(t, err)
			for i, path := range []string{filepath.Join(sub, "report.html"), filepath.Join(linked, "report.html")} {
				changed, err := w.Exclude(t.Context(), path)
				assert.NilError(t, err)
				assert.Equal(t, changed, i == 0 && tc.want != tc.exclude)
				content, err := os.ReadFile(file)
				assert.Assert(t, err == nil || tc.want == "")
				assert.Equal(t, string(content), tc.want)
			}
		})
	}
}

// Nothing is written behind a link that leaves the repository.
func TestExcludeFollowsNoLinkOutside(t *testing.T) {
	isolate(t)
	root, outside := tempDir(t), filepath.Join(tempDir(t), "rc")
	assert.NilError(t, os.WriteFile(outside, []byte("mine\n"), 0o600))
	gitIn(t, root, "init", "-q", "-b", "main")
	gitIn(t, root, "remote", "add", "origin", "https://h/a/b")
	file := filepath.Join(root, ".git", "info", "exclude")
	assert.NilError(t, os.RemoveAll(file))
	assert.NilError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	assert.NilError(t, os.Symlink(outside, file))
	w, err := Detect(t.Context(), root, noenv)
	assert.NilError(t, err)

	_, err = w.Exclude(t.Context(), filepath.Join(root, "report.html"))
	assert.ErrorContains(t, err, "escapes")
	content, err := os.ReadFile(outside)
	assert.NilError(t, err)
	assert.Equal(t, string(content), "mine\n")
}
