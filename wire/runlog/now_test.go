//go:build unix

package runlog

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func TestRecent(t *testing.T) {
	top := t.TempDir()
	assert.Equal(t, len(Recent(filepath.Join(top, "missing"), 3, Any)), 0)
	assert.Equal(t, len(Recent(top, 3, Any)), 0)
	old := create(t, top, noon)
	assert.NilError(t, old.SetNow(Now{N: 1, Tasks: []string{"a/1"}, Started: noon}))
	assert.NilError(t, old.Append(Iteration{N: 1, Outcome: "done", Tasks: []string{"a/1"}}))
	assert.NilError(t, old.Append(Iteration{N: 2, Outcome: "no task"}))
	assert.NilError(t, old.Finish(LoopEnd{Stop: "complete"}))
	young := create(t, top, noon.Add(time.Hour))
	assert.NilError(t, young.SetNow(Now{N: 1, Started: noon}))
	assert.NilError(t, young.SetNow(Now{N: 1, Tasks: []string{"a/2"}, Started: noon}))

	all := Recent(top, 3, Any)
	assert.Equal(t, len(all), 2)
	assert.DeepEqual(t, all[0].Now, Now{N: 1, Tasks: []string{"a/2"}, Started: noon})
	assert.Assert(t, all[0].Last == nil && all[0].Ended.IsZero())
	assert.Equal(t, all[1].Stop, "complete")
	assert.Equal(t, all[1].Last.N, 2)
	assert.Equal(t, len(Recent(top, 1, Any)), 1)
}

func TestRecentFindsLoopsAmongTranscripts(t *testing.T) {
	top := t.TempDir()
	l := create(t, top, noon)
	assert.NilError(t, l.Append(Iteration{N: 1}))
	for _, command := range []string{"run", "task"} {
		for i := range maxTranscripts {
			transcript, err := CreateTranscript(top, command, noon.Add(time.Duration(i+1)*time.Hour))
			assert.NilError(t, err)
			transcript.Close()
		}
	}
	all := Recent(top, 3, Any)
	assert.Equal(t, len(all), 1)
	assert.Equal(t, all[0].ID, l.Loop.ID)
}

func TestRecentIgnoresSpecialFiles(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, folder, elsewhere string){
		"a pipe": func(t *testing.T, folder, _ string) {
			assert.NilError(t, syscall.Mkfifo(filepath.Join(folder, loopFile), 0o600))
		},
		"a link": func(t *testing.T, folder, elsewhere string) {
			assert.NilError(t, os.Symlink(filepath.Join(elsewhere, loopFile), filepath.Join(folder, loopFile)))
		},
		"a directory": func(t *testing.T, folder, _ string) {
			assert.NilError(t, os.Mkdir(filepath.Join(folder, loopFile), 0o755))
		},
		"nonsense": func(t *testing.T, folder, _ string) {
			assert.NilError(t, os.WriteFile(filepath.Join(folder, loopFile), []byte("{"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			top, elsewhere := t.TempDir(), t.TempDir()
			assert.NilError(t, os.WriteFile(filepath.Join(elsewhere, loopFile), []byte(`{"id":"secret"}`), 0o600))
			l := create(t, top, noon)
			folder := filepath.Join(top, l.Loop.ID)
			assert.NilError(t, os.Remove(filepath.Join(folder, loopFile)))
			plant(t, folder, elsewhere)
			assert.Equal(t, len(Recent(top, 3, Any)), 0)
		})
	}
}

func FuzzLastIteration(f *testing.F) {
	f.Add(`{"n":1,"outcome":"done"}` + "\n" + `{"n":2,"out`)
	f.Add("\n\nnull\n[]\n")
	f.Fuzz(func(t *testing.T, end string) {
		it := lastIteration([]byte(end))
		assert.Assert(t, it == nil || it.N > 0)
	})
}
