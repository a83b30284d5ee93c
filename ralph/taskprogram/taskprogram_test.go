//go:build unix

package taskprogram

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"
)

func script(t *testing.T, text string) Program {
	t.Helper()
	path := filepath.Join(t.TempDir(), "the task")
	assert.NilError(t, os.WriteFile(path, []byte(text), 0o755))
	return Program{Path: path}
}

func TestRun(t *testing.T) {
	p := script(t, "#!/bin/sh\ncat\nfor a; do echo \"<$a>\"; done\necho \"$WHO\" >&2\n[ \"$1\" != bad ] || exit 3\n")
	p.Env = []string{"WHO=me", "PATH=" + os.Getenv("PATH")}
	var stdout, stderr strings.Builder
	assert.NilError(t, p.Fail(t.Context(), &stdout, &stderr, "it's a/01", "a reason"))
	assert.Equal(t, stdout.String(), "<fail>\n<it's a/01>\n<--reason>\n<a reason>\n")
	assert.Equal(t, stderr.String(), "me\n")
	out, err := p.Output(t.Context(), nil, "bad", "thing")
	assert.Equal(t, out, "<bad>\n<thing>\n")
	assert.Error(t, err, p.Path+" bad thing: exit status 3")
	_, err = Program{Path: "/nonexistent/task"}.Output(t.Context(), nil, "list")
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// What Ctrl+C hits is a process that is just about to become the program. This one
// comes as close to that as a script can.
func TestAProgramThatIsInterruptedIsStartedAgain(t *testing.T) {
	p := script(t, "#!/bin/sh\necho begun >>\"$0.runs\"\n[ \"$(wc -l <\"$0.runs\")\" -gt \"$1\" ] || kill -INT $$\necho done\n")
	out, err := p.Output(t.Context(), nil, "2")
	assert.NilError(t, err)
	assert.Equal(t, out, "done\n")
	_, err = p.Output(t.Context(), nil, "100")
	assert.ErrorContains(t, err, "signal: interrupt")
	runs, err := os.ReadFile(p.Path + ".runs")
	assert.NilError(t, err)
	assert.Equal(t, strings.Count(string(runs), "begun"), 3+attempts)
}

func TestAScriptWithoutInterpreterIsTheShells(t *testing.T) {
	out, err := script(t, "echo \"$1 for $2\"\n").Output(t.Context(), nil, "x y", "z")
	assert.NilError(t, err)
	assert.Equal(t, out, "x y for z\n")
}

func TestWhatItLeavesRunningIsNotWaitedFor(t *testing.T) {
	began := time.Now()
	out, err := script(t, "#!/bin/sh\nsleep 60 &\necho $!\n").Output(t.Context(), nil)
	assert.NilError(t, err)
	assert.Assert(t, cmp.Regexp(`^[0-9]+\n$`, out))
	assert.Assert(t, time.Since(began) < 30*time.Second)
}

func TestCancelEndsTheWholeGroup(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	p := script(t, "#!/bin/sh\nsh -c 'echo $$ >\"$1.new\"; mv \"$1.new\" \"$1\"; exec sleep 600' sh \"$1\"\n")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, nil, nil, pid) }()
	poll.WaitOn(t, poll.FileExists(pid))
	cancel()
	assert.ErrorIs(t, <-done, context.Canceled)
	b, err := os.ReadFile(pid)
	assert.NilError(t, err)
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(b)) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return poll.Success()
		}
		return poll.Continue("process %s lives", b)
	})
}

func TestActive(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"two", `printf '## Task a/01\nid: a/01\ntitle: id: no\n\n## Task b c\r\nid: b c\r\n'`, []string{"a/01", "b c"}},
		{"none", "", nil},
		{"nameless", "echo 'id: '; echo ' id: x'", nil},
		{"no newline at the end", "printf 'id: z'", []string{"z"}},
		{"other arguments", `[ "$*" = "list --status active --assignee 3c9e --markdown" ] && echo id: exact`, []string{"exact"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ids, err := script(t, "#!/bin/sh\n"+tc.text+"\n").Active(t.Context(), "3c9e")
			assert.NilError(t, err)
			assert.DeepEqual(t, ids, tc.want)
		})
	}
	_, err := script(t, "#!/bin/sh\necho id: half\nexit 1\n").Active(t.Context(), "3c9e")
	assert.ErrorContains(t, err, "exit status 1")
}
