//go:build unix

package budget

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
)

// A program that writes without end is ended by the budget, and costs no more memory than that.
func TestBufferEndsAProgram(t *testing.T) {
	out := New(64<<10, "the output of yes")
	cmd := exec.Command("yes")
	cmd.Stdout = out
	assert.Assert(t, cmd.Run() != nil)
	assert.ErrorIs(t, out.Err(), ErrExceeded)
	assert.Error(t, out.Err(), "the output of yes is larger than 64KiB: more than its budget")
	assert.Assert(t, len(out.Bytes()) <= 64<<10)
}

func TestBuffer(t *testing.T) {
	b := New(6, "it")
	n, err := io.Copy(b, strings.NewReader("abcdef"))
	assert.NilError(t, err)
	assert.Equal(t, n, int64(6))
	assert.Equal(t, b.String(), "abcdef")
	_, err = b.Write([]byte("g"))
	assert.ErrorIs(t, err, ErrExceeded)
	assert.Equal(t, b.String(), "abcdef")
}

func TestHead(t *testing.T) {
	h := NewHead(6)
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 1000 ]; do echo message; i=$((i+1)); done; exit 3")
	cmd.Stderr, cmd.Stdout = h, h
	assert.ErrorContains(t, cmd.Run(), "exit status 3", "the program ends by itself")
	assert.Equal(t, h.String(), "messag")
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "HEAD")
	assert.NilError(t, os.WriteFile(path, []byte("123456"), 0o600))
	content, err := ReadFile(path, 6)
	assert.NilError(t, err)
	assert.Equal(t, string(content), "123456")
	_, err = ReadFile(path, 5)
	assert.ErrorIs(t, err, ErrExceeded)
	assert.ErrorContains(t, err, path)
	_, err = ReadFile(path+".none", 5)
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.NilError(t, syscall.Mkfifo(path+".pipe", 0o600))
	_, err = ReadFile(path+".pipe", 5)
	assert.ErrorContains(t, err, "not a regular file")
}
