package guest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/creack/pty"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/fs"
	"gotest.tools/v3/poll"
)

// dispatchWith is _dispatch with another file of the sandbox's variables.
func dispatchWith(file envFile) func([]string) int {
	return command(os.Stderr, func(args []string) error {
		d, err := parseDispatch(args)
		if err != nil {
			return err
		}
		return d.run(context.Background(), streams{os.Stdout, os.Stderr}, file) //nolint:forbidigo // in its own process
	})
}

// dispatched is a hidden command with its own home directory.
func dispatched(t *testing.T, home, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := hidden(t, name, args...)
	cmd.Env = append(cmd.Env, "HOME="+home)
	return cmd
}

func result(t *testing.T, cmd *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		assert.NilError(t, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestDispatchBecomesTheCommand(t *testing.T) {
	home := t.TempDir()
	cmd := dispatched(t, home, "_dispatch", "a1B2", "-", "=sh", "=-c", `=printf '<%s>' "$0" "$@"; echo to-stderr >&2; cat; exit 7`,
		"=zero", "=", "=two words\n", "=$HOME *", "==")
	cmd.Stdin = strings.NewReader("in")
	stdout, stderr, code := result(t, cmd)
	assert.Equal(t, stdout, "<zero><><two words\n><$HOME *><=>in")
	assert.Equal(t, stderr, "RALPH_DISPATCH=a1B2\nto-stderr\n")
	assert.Equal(t, code, 7)
}

func TestDispatchUsage(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"x"},
		{"x", "-"},
		{"x", "-", "sh"},
		{"x", "-", "=sh", "c"},
		{"x", "-", ""},
		{"", "-", "=true"},
		{"../x", "-", "=true"},
		{"a.b", "-", "=true"},
		{"é", "-", "=true"},
		{strings.Repeat("a", 65), "-", "=true"},
		{"x", "", "=true"},
		{"x", "24", "=true"},
		{"x", "0x80", "=true"},
		{"x", "24x", "=true"},
		{"x", "24x80x1", "=true"},
		{"x", "-1x80", "=true"},
		{"x", "65536x80", "=true"},
		{"x", "24X80", "=true"},
	} {
		home := t.TempDir()
		_, stderr, code := result(t, dispatched(t, home, "_dispatch", args...))
		assert.Equal(t, code, 1, "%q", args)
		assert.Equal(t, stderr, "Error: "+errUsage.Error()+"\n")
		entries, err := os.ReadDir(home)
		assert.NilError(t, err)
		assert.Equal(t, len(entries), 0)
	}
}

func TestDispatchReportsUnexecutableCommands(t *testing.T) {
	dir := fs.NewDir(t, "programs", fs.WithFile("plain", "x"), fs.WithDir("folder"),
		fs.WithFile("noshebang", "\x7fnonsense", fs.WithMode(0o755)), fs.WithFile("nointerpreter", "#!/no/such\n", fs.WithMode(0o755)),
		fs.WithDir("second", fs.WithFile("plain", "#!/bin/sh\necho the second\n", fs.WithMode(0o755))))
	for _, tc := range []struct {
		program, stderr string
		code            int
	}{
		{"no-such-program", "no-such-program: not found in the sandbox\n", 127},
		{"", ": not found in the sandbox\n", 127},
		{"/no/such/program", "/no/such/program: not found in the sandbox\n", 127},
		{dir.Join("plain", "x"), "x: not found in the sandbox\n", 127},
		{dir.Join("nointerpreter"), "nointerpreter: not found in the sandbox\n", 127},
		{"plain", "plain: cannot execute in the sandbox: permission denied\n", 126},
		{dir.Join("folder"), "folder: cannot execute in the sandbox: is a directory\n", 126},
		{dir.Join("noshebang"), "noshebang: cannot execute in the sandbox: exec format error\n", 126},
	} {
		t.Run(tc.program, func(t *testing.T) {
			cmd := dispatched(t, t.TempDir(), "_dispatch", "x", "-", "="+tc.program)
			cmd.Env = append(cmd.Env, "PATH="+dir.Path()+"::/bin")
			stdout, stderr, code := result(t, cmd)
			assert.Equal(t, stdout, "")
			assert.Assert(t, strings.HasPrefix(stderr, wire.DispatchMark("x")+"\nError: ") && strings.HasSuffix(stderr, tc.stderr), stderr)
			assert.Equal(t, code, tc.code)
		})
	}
	cmd := dispatched(t, t.TempDir(), "_dispatch", "x", "-", "=plain")
	cmd.Env = append(cmd.Env, "PATH="+dir.Path()+":"+dir.Join("second"))
	stdout, _, _ := result(t, cmd)
	assert.Equal(t, stdout, "the second\n")
}

func TestDispatchEnvironment(t *testing.T) {
	self := filepath.Dir(os.Args[0])
	installed := `{"path":"/opt/other/bin/ralph"}`
	const file = `
export FROM_FILE='a "b"
c' PATH="/from/file:$PATH" RALPH_AGENT=theirs RALPH_NEW=theirs GIT_CONFIG_COUNT=9 GIT_CONFIG_GLOBAL=/theirs KEPT=theirs SECOND=theirs FREE=theirs SSH_AUTH_SOCK=/theirs
unset GONE
unset RALPH_AGENT_ID
echo noise
not_exported=1
cd /
`
	for _, tc := range []struct {
		name, file, marker string
		env                []string
		want               map[string]string // "-" for unset
	}{
		{
			"no file", "", "",
			[]string{"SSH_AUTH_SOCK=/run/ssh", "RALPH_DISPATCH=older", "PATH=/bin:/usr/bin", "EMPTY="},
			map[string]string{"RALPH_DISPATCH": "x1", "SSH_AUTH_SOCK": "-", "PATH": self + ":HOME/.local/bin:/bin:/usr/bin", "EMPTY": "", "HOME": "HOME"},
		},
		{"the agent may stay", "", "", []string{"SSH_AUTH_SOCK=/run/ssh", keepAgentEnv + "=1"}, map[string]string{"SSH_AUTH_SOCK": "/run/ssh"}},
		{"the agent may not stay", "", "", []string{"SSH_AUTH_SOCK=/run/ssh", keepAgentEnv + "=0"}, map[string]string{"SSH_AUTH_SOCK": "-"}},
		{
			"each folder once", "", "",
			[]string{"PATH=/bin:" + self + ":/usr/bin:/bin"},
			map[string]string{"PATH": self + ":HOME/.local/bin:/bin:/usr/bin"},
		},
		{"what is installed", "", installed, []string{"PATH=/bin"}, map[string]string{"PATH": "/opt/other/bin:HOME/.local/bin:/bin"}},
		{"in the home", "", `{"path":"HOME/.local/bin/ralph"}`, []string{"PATH=/bin"}, map[string]string{"PATH": "HOME/.local/bin:/bin"}},
		{"a broken marker", "", "{", []string{"PATH=/bin"}, map[string]string{"PATH": self + ":HOME/.local/bin:/bin"}},
		{
			"a file", file, "",
			[]string{
				"PATH=/bin:/usr/bin", "RALPH_AGENT=ours", "RALPH_AGENT_ID=3c9e", "GIT_CONFIG_COUNT=1", "KEPT=ours", "SECOND=", "FREE=ours", "GONE=1",
				"PWD=/somewhere", "SHLVL=4", keepEnv + "=KEPT, SECOND,UNSET", "MULTI=1\n2=3", "BASH_ENV=/nonexistent",
			},
			map[string]string{
				"FROM_FILE": "a \"b\"\nc", "PATH": self + ":HOME/.local/bin:/from/file:/bin:/usr/bin", "RALPH_AGENT": "ours", "RALPH_NEW": "-",
				"RALPH_AGENT_ID": "3c9e", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_GLOBAL": "/theirs", "KEPT": "ours", "SECOND": "", "FREE": "theirs",
				"GONE": "-", "PWD": "/somewhere", "SHLVL": "4", "SSH_AUTH_SOCK": "-", "MULTI": "1\n2=3", "BASH_ENV": "/nonexistent", "not_exported": "-",
				"RALPH_DISPATCH": "x1",
			},
		},
		{"a file that leaves", "export A=1\nset -e\nfalse\nexport A=2\n", "", nil, map[string]string{"A": "1"}},
		{"a file with exit", "export A=1\nexit 3\n", "", nil, map[string]string{"A": "1"}},
		{"a file with a fault", "export A=1\nif\n", "", nil, map[string]string{"A": "1", "RALPH_DISPATCH": "x1"}},
		{"a file with a background process", "sleep 1000 >/dev/null 2>&1 & export A=$!\n", "", nil, map[string]string{"RALPH_DISPATCH": "x1"}},
		{"a readonly file", "declare -rx RALPH_DISPATCH=theirs PATH\n", "", nil, map[string]string{"RALPH_DISPATCH": "x1"}},
		{"a file that replaces the shell", "exec true\n", "", []string{"A=ours"}, map[string]string{"A": "ours", "RALPH_DISPATCH": "x1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			home := fs.NewDir(t, "home", fs.WithDir(".ralph"))
			assert.NilError(t, os.WriteFile(markerPath(home.Path()), []byte(strings.ReplaceAll(tc.marker, "HOME", home.Path())), 0o600))
			cmd := dispatched(t, home.Path(), "_dispatch", "x1", "-", "=/usr/bin/env", "=-0")
			cmd.Env = append(cmd.Env, tc.env...)
			cmd.Env = append(cmd.Env, "GUEST_TEST_SHELL_FILE="+fs.NewFile(t, "persistent", fs.WithContent(tc.file)).Path())
			stdout, stderr, code := result(t, cmd)
			assert.Equal(t, code, 0, stderr)
			assert.Assert(t, !strings.Contains(stdout, "noise"))
			if tc.name == "a file that replaces the shell" {
				assert.Assert(t, cmp.Contains(stderr, "Warning: ignoring "))
			}
			got := parseEnviron(strings.Split(stdout, "\x00"))
			for name, want := range tc.want {
				value, ok := got[name]
				assert.Equal(t, ok, want != "-", name)
				if ok {
					assert.Equal(t, value, strings.ReplaceAll(want, "HOME", home.Path()), name)
				}
			}
			if pid := got["A"]; tc.name == "a file with a background process" {
				assert.NilError(t, exec.CommandContext(t.Context(), "kill", pid).Run())
			}
		})
	}
}

func TestDispatchTerminalSize(t *testing.T) {
	for _, tc := range []struct {
		name, size, want string
		has              pty.Winsize
	}{
		{"one that does not know", "50x132", "50 132\r\n", pty.Winsize{}},
		{"one that knows", "50x132", "24 80\r\n", pty.Winsize{Rows: 24, Cols: 80}},
		{"unknown size", "-", "0 0\r\n", pty.Winsize{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := dispatched(t, t.TempDir(), "_dispatch", "x", tc.size, "=stty", "=size")
			terminal, err := pty.StartWithSize(cmd, &tc.has)
			assert.NilError(t, err)
			defer func() { _ = terminal.Close() }()
			out, err := io.ReadAll(terminal)
			assert.Assert(t, err == nil || errors.Is(err, syscall.EIO), err)
			assert.NilError(t, cmd.Wait())
			assert.Equal(t, string(out), tc.want)
		})
	}
}

func runs(t *testing.T, id string) bool {
	t.Helper()
	running, err := runningDispatches(procDir)
	assert.NilError(t, err)
	return slices.ContainsFunc(running, func(d runningDispatch) bool { return d.ID == id })
}

func waitFor(t *testing.T, id string, running bool) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if runs(t, id) != running {
			return poll.Continue("running: %v", !running)
		}
		return poll.Success()
	})
}

func TestDispatchLifecycle(t *testing.T) {
	home := t.TempDir()
	id := rand.Text() // other dispatches may run on this machine
	loop := dispatched(t, home, "_dispatch", id, "-", "=sh", "=-c", "=cat >/dev/null & wait", "=a b", "=")
	stdin, err := loop.StdinPipe()
	assert.NilError(t, err)
	loop.Args[5] = "=exec 3<&0; cat <&3 >/dev/null & wait" // sh gives those in the background no stdin
	assert.NilError(t, loop.Start())
	waitFor(t, id, true)

	stdout, stderr, code := result(t, dispatched(t, home, "_dispatches"))
	assert.Equal(t, code, 0, stderr)
	var list struct{ Dispatches []runningDispatch }
	assert.NilError(t, json.Unmarshal([]byte(stdout), &list))
	found := runningDispatch{}
	for _, d := range list.Dispatches {
		if d.ID == id {
			found = d
		}
	}
	assert.DeepEqual(t, found.Command, []string{"sh", "-c", "exec 3<&0; cat <&3 >/dev/null & wait", "a b", ""})
	since, err := time.Parse(time.RFC3339, found.Since)
	assert.NilError(t, err)
	assert.Assert(t, time.Since(since) < time.Minute && time.Since(since) > -5*time.Second, found.Since)

	// The top one goes; what it left behind is still its dispatch.
	pid, err := findDispatch(procDir, id)
	assert.NilError(t, err)
	assert.Equal(t, pid, loop.Process.Pid, "the dispatch is the process that was started")
	out, err := dispatched(t, home, "_signal", "KILL", id).CombinedOutput()
	assert.NilError(t, err, string(out))
	assert.ErrorContains(t, loop.Wait(), "killed")
	// Wait has closed the pipe, so that the rest ends too.
	_ = stdin.Close()
	waitFor(t, id, false)
	_, stderr, code = result(t, dispatched(t, home, "_signal", "TERM", id))
	assert.Equal(t, stderr, "Error: no process of dispatch "+id+"\n")
	assert.Equal(t, code, 1)
}

func TestQueriesRejectInvalidArguments(t *testing.T) {
	for name, args := range map[string][]string{"_dispatches": {"x"}, "_busy": {"x"}} {
		_, stderr, code := result(t, dispatched(t, t.TempDir(), name, args...))
		assert.Equal(t, code, 1)
		assert.Equal(t, stderr, "Error: "+errUsage.Error()+"\n")
	}
}
