package guest

import (
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/fs"
)

func TestFinishSignal(t *testing.T) {
	const catching, ignoring = "Name:\tralph\nSigCgt:\tfffffffd7fc1feff\n", "Name:\tralph\nSigCgt:\t0000000000014003\n"
	for _, tc := range []struct {
		name, program, status string
		want                  unix.Signal
	}{
		{"our loop", "/opt/ralph/0123/ralph", catching, unix.SIGUSR1},
		{"a shell script of that name", "/bin/ralph", ignoring, unix.SIGINT},
		{"a program that would listen for a debugger", "/usr/bin/node", catching, unix.SIGINT},
		{"no answer", "/opt/ralph/0123/ralph", "Name:\tralph\n", unix.SIGINT},
		{"half an answer", "/opt/ralph/0123/ralph", "SigCgt:\txyz\n", unix.SIGINT},
	} {
		t.Run(tc.name, func(t *testing.T) {
			proc := fs.NewDir(t, "proc", fs.WithDir("7", fs.WithFile("status", tc.status), fs.WithFile("cmdline", tc.program+"\x00build\x00")))
			assert.Equal(t, finishSignal(proc.Path(), 7), tc.want)
		})
	}
	assert.Equal(t, finishSignal(t.TempDir(), 7), unix.SIGINT)
}

func FuzzCatches(f *testing.F) {
	f.Add("SigCgt:\t0000000000014003\n")
	f.Add("SigCgt:")
	f.Fuzz(func(t *testing.T, status string) {
		_ = catches([]byte(status), unix.SIGUSR1)
	})
}
