//go:build unix

package runlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func latest(t *testing.T, top, command string) string {
	t.Helper()
	f, err := LatestTranscript(top, command)
	assert.NilError(t, err)
	content, err := io.ReadAll(f)
	assert.NilError(t, err)
	assert.NilError(t, f.Close())
	return string(content)
}

func TestTranscript(t *testing.T) {
	top := t.TempDir()
	_, err := LatestTranscript(top, "run")
	assert.ErrorIs(t, err, fs.ErrNotExist)

	var terminal strings.Builder
	for i, command := range []string{"run", "run", "shell", "run"} {
		transcript, err := CreateTranscript(top, command, noon, nil) // all at the same moment
		assert.NilError(t, err)
		_, err = fmt.Fprintf(transcript.Tee(&terminal), "%s %d\n", command, i)
		assert.NilError(t, err)
		assert.Equal(t, latest(t, top, command), fmt.Sprintf("%s %d\n", command, i), "while it runs")
		transcript.Close()
		_, err = transcript.Write([]byte("too late"))
		assert.NilError(t, err)
	}
	assert.Equal(t, terminal.String(), "run 0\nrun 1\nshell 2\nrun 3\n")
	assert.Equal(t, latest(t, top, "run"), "run 3\n")
	assert.Equal(t, latest(t, top, "shell"), "shell 2\n")
	_, err = LatestTranscript(top, "plan")
	assert.ErrorIs(t, err, fs.ErrNotExist)
	ignored, err := os.ReadFile(filepath.Join(top, ignoreFile))
	assert.NilError(t, err)
	assert.Equal(t, string(ignored), "*\n")

	// They are not loops.
	_, err = Find(top, func(Loop) bool { return true })
	assert.ErrorIs(t, err, fs.ErrNotExist)

	var none *Transcript
	assert.Equal(t, none.Tee(&terminal), io.Writer(&terminal))
	none.Close()
}

func TestTranscriptsAreBounded(t *testing.T) {
	top := t.TempDir()
	assert.NilError(t, os.MkdirAll(filepath.Join(top, dir, "20260314-120000-build"), 0o755))
	assert.NilError(t, os.WriteFile(filepath.Join(top, dir, "0-mine.log"), nil, 0o600))
	other, err := CreateTranscript(top, "shell", noon.Add(-time.Hour), nil)
	assert.NilError(t, err)
	other.Close()
	for i := range maxTranscripts + 5 {
		transcript, err := CreateTranscript(top, "run", noon.Add(time.Duration(i)*time.Hour), nil)
		assert.NilError(t, err)
		transcript.Close()
	}
	entries, err := os.ReadDir(filepath.Join(top, dir))
	assert.NilError(t, err)
	assert.Assert(t, is.Len(entries, maxTranscripts+3))
	assert.Equal(t, entries[2].Name(), "20310203-110000.000-shell.log", "another command")
	assert.Equal(t, entries[3].Name(), "20310203-170000.000-run.log", "the five oldest are pruned")

	transcript, err := CreateTranscript(top, "run", noon.AddDate(1, 0, 0), nil)
	assert.NilError(t, err)
	_, err = transcript.Write(make([]byte, maxOutput+1))
	assert.NilError(t, err)
	transcript.Close()
	assert.Check(t, is.Contains(latest(t, top, "run")[maxOutput:], "truncated after 16 MiB"))
}

func TestTranscriptsFollowNoLinks(t *testing.T) {
	for _, link := range []string{".ralph", ".ralph/logs"} {
		t.Run(link, func(t *testing.T) {
			top := t.TempDir()
			inside := filepath.Join(top, ".git", "refs")
			assert.NilError(t, os.MkdirAll(filepath.Join(inside, "logs"), 0o755))
			assert.NilError(t, os.MkdirAll(filepath.Dir(filepath.Join(top, link)), 0o755))
			assert.NilError(t, os.Symlink(inside, filepath.Join(top, link)))
			_, err := CreateTranscript(top, "run", noon, nil)
			assert.ErrorContains(t, err, "is not a directory")
			_, err = LatestTranscript(top, "run")
			assert.Assert(t, err != nil && !errors.Is(err, fs.ErrNotExist))
			entries, err := os.ReadDir(inside)
			assert.NilError(t, err)
			assert.Assert(t, is.Len(entries, 1))
		})
	}
	top := t.TempDir()
	assert.NilError(t, os.MkdirAll(filepath.Join(top, dir), 0o755))
	secret := filepath.Join(top, "secret")
	assert.NilError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	assert.NilError(t, os.Symlink(secret, filepath.Join(top, dir, "20990101-000000.000-run.log")))
	_, err := LatestTranscript(top, "run")
	assert.ErrorContains(t, err, "not a regular file")
}

func TestTranscriptsAreOwnedByTheUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("requires root")
	}
	top := t.TempDir()
	transcript, err := CreateTranscript(top, "run", noon, &Owner{UID: 1234, GID: 2345})
	assert.NilError(t, err)
	transcript.Close()
	for _, name := range []string{".ralph", ignoreFile, dir, dir + "/20310203-120000.000-run.log"} {
		info, err := os.Lstat(filepath.Join(top, name))
		assert.NilError(t, err)
		st, ok := info.Sys().(*syscall.Stat_t)
		assert.Assert(t, ok && st.Uid == 1234 && st.Gid == 2345, name)
	}
}
