package sysinfo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/fs"
)

// statOf returns the fields of a process whose stat file has the content.
func statOf(t *testing.T, content string) []string {
	t.Helper()
	return Stat(fs.NewDir(t, "proc", fs.WithDir("7", fs.WithFile("stat", content))).Path(), 7)
}

func TestStat(t *testing.T) {
	const stat = "7 () R 2 () S 1 1 1 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 42 1000 100 18446744073709551615\n"
	fields := statOf(t, stat)
	assert.Equal(t, fields[StatState]+fields[StatParent]+fields[StatStart], "S142")
	for _, content := range []string{"", "7 (x)", "7 (x) S 1", strings.TrimSuffix(stat[:len(stat)-33], " 42")} {
		assert.Assert(t, statOf(t, content) == nil, content)
	}
	assert.Assert(t, Stat(t.TempDir(), 7) == nil)
}

func FuzzStat(f *testing.F) {
	f.Add("2 (kthreadd)")
	f.Add("2 (a) S (b) Z 0")
	f.Fuzz(func(t *testing.T, content string) {
		fields := statOf(t, content)
		assert.Assert(t, fields == nil || len(fields) > StatStart)
	})
}

func TestProcessesAndEnviron(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	assert.NilError(t, os.Mkdir(filepath.Join(dir, "self"), 0o755))
	assert.NilError(t, os.Mkdir(filepath.Join(dir, "12"), 0o755))
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "12", "environ"), []byte("XA=1\x00A=2\x00B\x00"), 0o600))
	pids, err := Processes(dir)
	assert.NilError(t, err)
	assert.DeepEqual(t, pids, []int{12})
	assert.Equal(t, Environ(dir, 12, "A"), "2")
	assert.Equal(t, Environ(dir, 12, "B")+Environ(dir, 13, "A"), "")
	_, err = Processes(filepath.Join(dir, "missing"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}
