package task

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"

	"gotest.tools/v3/assert"
)

func streams(stdout, stderr *bytes.Buffer) IO {
	return IO{Stdin: &bytes.Buffer{}, Stdout: stdout, Stderr: stderr, Getenv: func(string) string { return "" }}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestFailedWriteIsReported(t *testing.T) {
	var stderr bytes.Buffer
	io := streams(nil, &stderr)
	io.Stdout = fullDisk{}
	assert.Equal(t, Run(t.Context(), []string{"--help"}, io), exitFailure)
	assert.Equal(t, stderr.String(), "Error: writing the result: no space left on device\n")
}

func TestCanceledContextIsReported(t *testing.T) {
	dir := newRepo(t)
	t.Chdir(dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	assert.Equal(t, Run(ctx, []string{"list"}, streams(&stdout, &stderr)), exitInterrupted)
	assert.Equal(t, stderr.String(), "Error: interrupted\n")
	assert.Equal(t, stdout.String(), "")
}

type brokenPipe struct{}

func (brokenPipe) Read([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestFailedReadOfAPlanIsReported(t *testing.T) {
	t.Chdir(newRepo(t))
	var stdout, stderr bytes.Buffer
	io := streams(&stdout, &stderr)
	io.Stdin = brokenPipe{}
	assert.Equal(t, Run(t.Context(), []string{"plan-sync"}, io), exitFailure)
	assert.Equal(t, stderr.String(), "Error: reading the plan: broken pipe\n")
	_, err := os.Stat(".ralph/tasks.db")
	assert.NilError(t, err)
}

func TestFlags(t *testing.T) {
	for _, tc := range []struct {
		name, err, value string
		args             []string
		on               bool
	}{
		{name: "none"},
		{name: "value that looks like a flag", args: []string{"--text", "--on"}, value: "--on"},
		{name: "last wins", args: []string{"--text", "a", "--on", "--text", "b"}, value: "b", on: true},
		{name: "no value", args: []string{"--on", "--text"}, err: "--text requires a value"},
		{name: "equals sign", args: []string{"--text=a"}, err: "unknown flag '--text=a'"},
		{name: "positional", args: []string{"a"}, err: "unknown flag 'a'"},
		{name: "empty", args: []string{""}, err: "unknown flag ''"},
		{name: "double dash", args: []string{"--"}, err: "unknown flag '--'"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var text option
			var on bool
			err := flags{options: map[string]*option{"--text": &text}, switches: map[string]*bool{"--on": &on}}.parse(tc.args)
			if tc.err != "" {
				assert.Error(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, text.value, tc.value)
			assert.Equal(t, on, tc.on)
		})
	}
}

// Any argument is rendered or refused.
func FuzzRenderObject(f *testing.F) {
	for _, seed := range []string{
		`{"id":"a","t":"T","p":1,"deps":["b"],"steps":["x",1,null],"blocker_results":{"b":{"commit":"c"}}}`,
		`{"id":"a","blocker_results":[{"slug":"b","result":"{}"},{"id":"c","result":null},{}]}`,
		`null`, `[]`, `{"deps":"a","steps":{},"p":{}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" {
			return
		}
		var stdout, stderr bytes.Buffer
		code := Run(t.Context(), []string{"_render-md", text}, streams(&stdout, &stderr))
		if code == exitOK {
			assert.Assert(t, bytes.HasPrefix(stdout.Bytes(), []byte("## Task ")))
			return
		}
		assert.Equal(t, code, exitFailure)
		assert.Assert(t, bytes.HasPrefix(stderr.Bytes(), []byte("Error: ")))
	})
}
