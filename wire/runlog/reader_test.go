//go:build unix

package runlog

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func anyLoop(Loop) bool { return true }

func find(t *testing.T, top string) *Reader {
	t.Helper()
	r, err := Find(top, anyLoop)
	assert.NilError(t, err)
	t.Cleanup(r.Close)
	return r
}

func TestFindReturnsTheLatestLoop(t *testing.T) {
	top := t.TempDir()
	_, err := Find(top, anyLoop)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	first := create(t, top, noon)
	assert.NilError(t, first.Finish(LoopEnd{Stop: "interrupted", ExitCode: 130, Summary: "Total: 1 run"}))
	other := newLoop(noon.Add(time.Hour))
	other.Mode = "plan"
	second, err := Create(top, other)
	assert.NilError(t, err)
	assert.Equal(t, find(t, top).Loop.ID, second.Loop.ID)
	_, _, err = Resume(top, newLoop(noon.Add(2*time.Hour)), notAlive)
	assert.NilError(t, err)
	r := find(t, top)
	assert.Equal(t, r.Loop.ID, first.Loop.ID, "resumed later")
	assert.Check(t, r.Loop.Ended.IsZero())
	_, err = Find(top, func(l Loop) bool { return l.Branch == "topic" })
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

func TestCopyContinuesAtTheCursor(t *testing.T) {
	top := t.TempDir()
	l := create(t, top, noon)
	o := l.Output(0)
	write := func(s string) { _, _ = o.Write([]byte(s)) }
	write("banner\n")
	r := find(t, top)
	var got strings.Builder
	more := func(at Cursor) Cursor {
		at, err := r.Copy(&got, Rendered, at)
		assert.NilError(t, err)
		return at
	}
	at := more(Cursor{})
	assert.Equal(t, got.String(), "banner\n")
	write("late\n")
	l.Begin(1)
	write("one")
	at = more(at)
	write(" and more\n")
	for n := 2; n < 12; n++ { // by number, not by name
		l.Begin(n)
	}
	write("eleven\n")
	more(more(at))
	assert.Equal(t, got.String(), "banner\nlate\none and more\neleven\n")
	assert.NilError(t, l.Finish(LoopEnd{Stop: "complete", ExitCode: 7, Summary: "Total"}))
	loop, err := r.Reload()
	assert.NilError(t, err)
	assert.Equal(t, loop.ExitCode, 7)

	got.Reset()
	end, err := r.CopyRun(&got, Rendered, 1, 4)
	assert.NilError(t, err)
	assert.Equal(t, got.String(), "and more\n")
	assert.Equal(t, end, int64(len("one and more\n")))
	_, err = r.CopyRun(&got, Raw, 1, 0)
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

func TestCopyReadsRegularFilesOnly(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	assert.NilError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	for _, tc := range []struct {
		name  string
		plant func(t *testing.T, top string, l *Log)
	}{
		{"a link out of the worktree", func(t *testing.T, top string, l *Log) {
			assert.NilError(t, os.Symlink(secret, filepath.Join(top, l.Loop.ID, "1.log")))
		}},
		{"a link within", func(t *testing.T, top string, l *Log) {
			assert.NilError(t, os.WriteFile(filepath.Join(top, "mine"), []byte("secret"), 0o600))
			assert.NilError(t, os.Symlink("../../../mine", filepath.Join(top, l.Loop.ID, "1.log")))
		}},
		{"a pipe", func(t *testing.T, top string, l *Log) {
			assert.NilError(t, syscall.Mkfifo(filepath.Join(top, l.Loop.ID, "1.log"), 0o600))
		}},
		{"a directory", func(t *testing.T, top string, l *Log) {
			assert.NilError(t, os.Mkdir(filepath.Join(top, l.Loop.ID, "1.log"), 0o700))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			top := t.TempDir()
			l := create(t, top, noon)
			tc.plant(t, top, l)
			var got strings.Builder
			_, err := find(t, top).Copy(&got, Rendered, Cursor{})
			assert.ErrorContains(t, err, "is not a regular file")
			assert.Equal(t, got.String(), "")
		})
	}
}

func FuzzParseLoop(f *testing.F) {
	for _, seed := range []string{``, `{}`, `null`, `[]`, `{"exit_code":-1}`, `{"exit_code":1e99}`, `{"id":"../x","ended":"2031-02-03T12:00:00Z","exit_code":300}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		loop, err := parseLoop(b)
		if err == nil && (loop.ExitCode < 0 || loop.ExitCode > 255) {
			t.Fatalf("exit code %d", loop.ExitCode)
		}
	})
}
