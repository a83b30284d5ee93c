//go:build unix

package runlog

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
		transcript, err := CreateTranscript(top, command, noon) // all at the same moment
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
	// They are not loops.
	_, err = Find(top, func(Loop) bool { return true })
	assert.ErrorIs(t, err, fs.ErrNotExist)

	var none *Transcript
	assert.Equal(t, none.Tee(&terminal), io.Writer(&terminal))
	none.Close()
}

func TestTranscriptsAreBounded(t *testing.T) {
	top := t.TempDir()
	assert.NilError(t, os.MkdirAll(filepath.Join(top, "20260314-120000-build"), 0o755))
	assert.NilError(t, os.WriteFile(filepath.Join(top, "0-mine.log"), nil, 0o600))
	other, err := CreateTranscript(top, "shell", noon.Add(-time.Hour))
	assert.NilError(t, err)
	other.Close()
	for i := range maxTranscripts + 5 {
		transcript, err := CreateTranscript(top, "run", noon.Add(time.Duration(i)*time.Hour))
		assert.NilError(t, err)
		transcript.Close()
	}
	entries, err := os.ReadDir(top)
	assert.NilError(t, err)
	assert.Assert(t, is.Len(entries, maxTranscripts+3))
	assert.Equal(t, entries[2].Name(), "20310203-110000.000-shell.log", "another command")
	assert.Equal(t, entries[3].Name(), "20310203-170000.000-run.log", "the five oldest are pruned")

	transcript, err := CreateTranscript(top, "run", noon.AddDate(1, 0, 0))
	assert.NilError(t, err)
	_, err = transcript.Write(make([]byte, maxOutput+1))
	assert.NilError(t, err)
	transcript.Close()
	assert.Check(t, is.Contains(latest(t, top, "run")[maxOutput:], "truncated after 16 MiB"))
}
