package run

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"gotest.tools/v3/assert"
)

// What an engine or Go says in place of a command is held back, and nothing else is.
func TestStartFailuresAreHeldBack(t *testing.T) {
	long := startFailures[0] + strings.Repeat("x", startFailureMax)
	for _, tc := range []struct {
		name    string
		written []string
		shown   string // before pass
		failed  bool
	}{
		{"nothing", nil, "", false},
		{"the command's own", []string{"OCI", " images", "\n"}, "OCI images\n", false},
		{"an engine's", []string{"OCI runtime exec failed: ", "exec failed: procReady not received\r\n"}, "", true},
		{"Go's", []string{"runtime: failed to create new OS thread (have 2 already; errno=11)\n", "goroutine 1\n"}, "", true},
		{"later", []string{"x\n", startFailures[0]}, "x\n" + startFailures[0], false},
		{"too long", []string{long}, long, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			stdout := &startOutput{to: &out}
			for _, s := range tc.written {
				n, err := io.WriteString(stdout, s)
				assert.NilError(t, err)
				assert.Equal(t, n, len(s))
			}
			assert.Equal(t, out.String(), tc.shown)
			assert.Equal(t, stdout.failed, tc.failed)
			assert.NilError(t, stdout.pass())
			assert.Equal(t, out.String(), strings.Join(tc.written, ""))
		})
	}
}

// A command is not run again with less input than it was given.
func TestInputOfAFailedStart(t *testing.T) {
	var none *checkedInput
	assert.Assert(t, none.whole())
	for _, tc := range []struct {
		name  string
		from  io.Reader
		reads int
		whole bool
	}{
		{"not read", strings.NewReader("x"), 0, true},
		{"read", strings.NewReader("x"), 1, false},
		{"read to its end", strings.NewReader("x"), 2, false},
		{"empty", strings.NewReader(""), 1, true},
		{"broken", iotest.ErrReader(io.ErrUnexpectedEOF), 1, false},
	} {
		in := &checkedInput{Reader: tc.from}
		for range tc.reads {
			_, _ = in.Read(make([]byte, 9)) // what it has read says more
		}
		assert.Equal(t, in.whole(), tc.whole, tc.name)
	}

	pending, _ := io.Pipe()
	in, reading := &checkedInput{Reader: pending}, make(chan struct{})
	go func() {
		_, _ = in.Read(make([]byte, 9))
		close(reading)
	}()
	for in.whole() { // until it is being read
		runtime.Gosched()
	}
	assert.NilError(t, pending.Close())
	<-reading
}
