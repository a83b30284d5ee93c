package attempt

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
)

func TestBegunRun(t *testing.T) {
	w, _ := repo(t)
	found, err := w.Begun()
	assert.NilError(t, err)
	assert.Assert(t, found == nil)
	for _, want := range []Begun{
		{Agent: "3c9e", Claims: []string{}, State: State{Files: []string{}, Operations: []string{}}},
		{Agent: "3c9e", Claims: []string{"a/1 2"}, State: State{Files: []string{"a b\n", "\xff", "sub/"}, Operations: []string{"merge"}}},
	} {
		assert.NilError(t, w.Begin(want))
		found, err = w.Begun()
		assert.NilError(t, err)
		assert.DeepEqual(t, *found, want)
	}
	assert.NilError(t, w.End())
	assert.NilError(t, w.End())
	found, err = w.Begun()
	assert.NilError(t, err)
	assert.Assert(t, found == nil)
}

// An agent can write anything there.
func TestInvalidRecordOfARun(t *testing.T) {
	w, _ := repo(t)
	for _, content := range []string{"", "x", strings.Repeat("\x00", 3), "x\x000\x009\x00f", "x\x00-1\x00f\x000"} {
		assert.NilError(t, os.WriteFile(w.begunPath(), []byte(content), 0o600))
		found, err := w.Begun()
		assert.NilError(t, err)
		assert.Assert(t, found == nil, "%q", content)
	}
	assert.NilError(t, w.End())
	assert.NilError(t, syscall.Mkfifo(w.begunPath(), 0o600))
	found, err := w.Begun()
	assert.NilError(t, err)
	assert.Assert(t, found == nil)
	assert.NilError(t, w.End())
	assert.NilError(t, os.MkdirAll(w.begunPath()+"/x", 0o700))
	_, err = w.Begun()
	assert.ErrorContains(t, err, "reading the record of the last run: ")
	assert.ErrorContains(t, w.Begin(Begun{}), "recording the run: ")
	assert.NilError(t, w.End())
}

func FuzzBegun(f *testing.F) {
	f.Add([]byte("3c9e\x001\x00a/1 2\x001\x00a b\n\x000"))
	f.Add([]byte("x\x009999999999999999999\x00"))
	w := Worktree(f.TempDir())
	assert.NilError(f, os.Mkdir(string(w)+"/.git", 0o700))
	f.Fuzz(func(t *testing.T, content []byte) {
		assert.NilError(t, os.WriteFile(w.begunPath(), content, 0o600))
		found, err := w.Begun()
		assert.NilError(t, err)
		if found == nil {
			return
		}
		assert.NilError(t, w.Begin(*found))
		again, err := w.Begun()
		assert.NilError(t, err)
		assert.DeepEqual(t, again, found)
	})
}
