//go:build unix

package gitrepo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/fs"
)

// What cannot be read in time is asked for again, but not for ever.
func TestUnreadOutputIsRequestedAgain(t *testing.T) {
	const answered = "echo asked >> asked\necho main\n"
	const held = "sleep 3 &\n" // has the pipes open for longer than is waited
	for _, tc := range []struct {
		name, script string
		fails        bool
		asked        int
	}{
		{"at once", answered, false, 1},
		{"the first time", "test -e asked || { " + answered + held + "exit; }\n" + answered, false, 2},
		{"never", answered + held, true, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			syscall.ForkLock.RLock() // a child that is forked meanwhile would hold the program open: "text file busy"
			dir := fs.NewDir(t, "git", fs.WithFile("git", "#!/bin/sh\n"+tc.script, fs.WithMode(0o755)))
			syscall.ForkLock.RUnlock()
			out, err := Git{Program: dir.Join("git"), Dir: dir.Path(), Environ: []string{"PATH=/usr/bin:/bin"}}.Run(t.Context(), "for-each-ref")
			if tc.fails {
				assert.ErrorIs(t, err, exec.ErrWaitDelay)
			} else {
				assert.NilError(t, err)
				assert.Equal(t, out, "main\n")
			}
			asked, err := exec.Command("cat", dir.Join("asked")).Output()
			assert.NilError(t, err)
			assert.Equal(t, strings.Count(string(asked), "asked"), tc.asked)
		})
	}
}

// The user can rename or remove the directory while a loop works for it.
func TestMissingDirectoryIsNamed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "none")
	git, err := exec.LookPath("git")
	assert.NilError(t, err)
	_, err = Git{Program: git, Dir: dir}.Run(t.Context(), "rev-parse", "HEAD")
	assert.Error(t, err, dir+": file does not exist")
	assert.ErrorIs(t, err, os.ErrNotExist)
}
