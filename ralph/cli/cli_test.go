package cli

import (
	"database/sql"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/fs"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/internal/testutil/screentest"
	"github.com/docker-ralph/docker-ralph/ralph/loop"
)

// install creates a directory with ralph and an optional claude on PATH, and returns
// the environment.
func install(t testing.TB, dir, claude string) []string {
	t.Helper()
	bin := filepath.Join(dir, ".bin")
	assert.NilError(t, os.MkdirAll(bin, 0o700))
	self, err := os.Executable()
	assert.NilError(t, err)
	assert.NilError(t, os.Symlink(self, filepath.Join(bin, "ralph")))
	if claude != "" {
		writeProgram(t, filepath.Join(bin, "claude"), claude)
	}
	return []string{
		asProgram + "=1", "PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, ".home"),
		"GIT_CONFIG_NOSYSTEM=1",
		"GOCOVERDIR=" + os.Getenv("GOCOVERDIR"),
		"GORACE=atexit_sleep_ms=0", // a race-enabled program otherwise takes a second to end
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@t", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@t",
	}
}

// writeProgram writes an executable script. The lock keeps children of other tests from
// inheriting the open file ("text file busy").
func writeProgram(t testing.TB, path, script string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	assert.NilError(t, os.WriteFile(path, []byte(script), 0o700))
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// host COMMAND BRANCH answers the requests of a sandbox from now on.
			"host": func(ts *testscript.TestScript, _ bool, args []string) {
				h, err := startHost(t.Context(), filepath.Join(ts.Getenv("TMPDIR"), "host", "tasks.db"), ts.Getenv("HOME"), args[0], args[1])
				ts.Check(err)
				ts.Defer(h.close)
				for name, value := range h.env {
					ts.Setenv(name, value)
				}
			},
			// saidto FILE saves a loop's output without its figures.
			"saidto": func(ts *testscript.TestScript, _ bool, args []string) {
				said := figures.ReplaceAllString(ts.ReadFile("stdout"), "")
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(said), 0o600))
			},
		},
		Setup: func(e *testscript.Env) error {
			for _, kv := range install(t, e.WorkDir, "") {
				name, value, _ := strings.Cut(kv, "=")
				e.Setenv(name, value)
			}
			// Outside the worktree, which agents commit as a whole.
			temp, err := os.MkdirTemp("", "ralph-test-")
			e.Setenv("TMPDIR", temp)
			e.Defer(func() { _ = os.RemoveAll(temp) })
			return err
		},
	})
}

// place is a repository with one open task, with ralph and a claude.
type place struct {
	dir string
	env []string
}

func newPlace(t *testing.T, claude string) place {
	t.Helper()
	dir := fs.NewDir(t, "place", fs.WithDir("specs", fs.WithFile("a.md", "A\n"))).Path()
	p := place{dir: dir, env: append(install(t, dir, claude), "TMPDIR="+dir)}
	for _, args := range [][]string{
		{"git", "init", "--quiet", "--initial-branch=main"},
		{"git", "remote", "add", "origin", "https://example.com/acme/shop.git"},
		{filepath.Join(dir, ".bin", "ralph"), "task", "create", "a/01", "First"},
	} {
		out, err := p.command(args...).CombinedOutput()
		assert.NilError(t, err, string(out))
	}
	return p
}

func (p place) command(args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = p.dir, p.env
	return cmd
}

// program is the path of ralph.
func (p place) program() string {
	bin, _, _ := strings.Cut(strings.TrimPrefix(p.env[1], "PATH="), ":")
	return filepath.Join(bin, "ralph")
}

func (p place) task(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.command(append([]string{p.program(), "task"}, args...)...).CombinedOutput()
	assert.NilError(t, err, string(out))
	return string(out)
}

// figures matches the lines with variable figures.
var figures = regexp.MustCompile(`(?m)^Iteration .*\n|^\r?\nRUN (.*\n)+?Total: .*\n(No checks .*\n)?(Log: .*\n)?`)

const claims = `#!/bin/sh
ralph task claim >/dev/null
`

// The agent holds a task and has a child in another session, like claude's tools.
func TestSignals(t *testing.T) {
	const (
		escape   = `setsid sh -c 'trap "" INT TERM; echo $$ >escaped; exec sleep 600' & while [ ! -s escaped ]; do sleep 0.01; done` + "\n"
		gentle   = claims + escape + "trap 'sleep 0.2; exit 0' INT\ntouch ready\nwhile :; do sleep 0.05; done\n"
		stubborn = claims + escape + "trap '' INT\ntouch ready\nwhile :; do sleep 0.05; done\n"
		message  = "\nWaiting for claude to finish cleanup... Press Ctrl+C again to force quit.\n"
	)
	for _, tc := range []struct {
		name, claude string
		signals      []syscall.Signal
		message      string
	}{
		{"once", gentle, []syscall.Signal{syscall.SIGINT}, message},
		{"twice", stubborn, []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, message},
		{"terminate", stubborn, []syscall.Signal{syscall.SIGTERM}, ""},
		{"hang up", stubborn, []syscall.Signal{syscall.SIGHUP}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// A signal that is handled here is not ignored by the program, even
			// where the tests run under nohup.
			hup := make(chan os.Signal, 1)
			signal.Notify(hup, syscall.SIGHUP)
			defer signal.Stop(hup)
			p := newPlace(t, tc.claude)
			out, err := os.Create(filepath.Join(p.dir, ".out"))
			assert.NilError(t, err)
			cmd := p.command(filepath.Join(p.dir, ".bin", "ralph"), "build")
			cmd.Stdout, cmd.Stderr = out, out
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			assert.NilError(t, cmd.Start())
			poll.WaitOn(t, poll.FileExists(filepath.Join(p.dir, "ready")))
			for i, sig := range tc.signals {
				if i > 0 { // two signals at once are one
					poll.WaitOn(t, func(poll.LogT) poll.Result {
						if b, _ := os.ReadFile(out.Name()); strings.Contains(string(b), message) {
							return poll.Success()
						}
						return poll.Continue("no message yet")
					})
				}
				// The whole group, as a terminal does.
				assert.NilError(t, syscall.Kill(-cmd.Process.Pid, sig))
			}
			err = cmd.Wait()
			assert.Equal(t, cmd.ProcessState.ExitCode(), loop.Interrupted.ExitCode(), "%v", err)

			b, err := os.ReadFile(out.Name())
			assert.NilError(t, err)
			_, said, _ := strings.Cut(string(b), "Agent:  ")
			id := said[:4]
			_, said, _ = strings.Cut(said, strings.Repeat("━", 40)+"\n")
			said = figures.ReplaceAllString(said, "")
			assert.Equal(t, said, tc.message+"failed a/01\nderegistered "+id+"\n")
			assert.Assert(t, cmp.Contains(p.task(t, "show", "a/01"), "Fail reason: session interrupted"))
			assert.Equal(t, p.task(t, "agent", "list"), "")
			assertGone(t, filepath.Join(p.dir, "escaped"))
			left, err := filepath.Glob(filepath.Join(p.dir, "ralph-*"))
			assert.NilError(t, err)
			assert.Equal(t, len(left), 0, "temporary files stay behind: %v", left)
		})
	}
}

// Hooks receive the session's SIGINT too and must still release the task.
func TestHookSurvivesInterrupt(t *testing.T) {
	p := newPlace(t, "")
	p.env = append(p.env, "RALPH_AGENT_ID=3c9e", "RALPH_TASK_SCRIPT=task", "RALPH_SCOPE_REPO=acme/shop", "RALPH_SCOPE_BRANCH=main")
	p.task(t, "claim")
	db, err := sql.Open("sqlite", filepath.Join(p.dir, ".ralph", "tasks.db"))
	assert.NilError(t, err)
	defer func() { assert.NilError(t, db.Close()) }()
	db.SetMaxOpenConns(1) // a transaction is of a connection
	_, err = db.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	assert.NilError(t, err)

	out := filepath.Join(p.dir, ".out")
	cmd := p.command("sh", "-c", "exec "+p.program()+" _hook session_end >"+out+" 2>&1")
	assert.NilError(t, cmd.Start())
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if b, _ := os.ReadFile(out); len(b) > 0 {
			return poll.Success()
		}
		return poll.Continue("it has not got to its task")
	})
	assert.NilError(t, cmd.Process.Signal(syscall.SIGINT))
	_, err = db.ExecContext(t.Context(), "ROLLBACK")
	assert.NilError(t, err)
	assert.NilError(t, cmd.Wait())
	said, err := os.ReadFile(out)
	assert.NilError(t, err)
	assert.Equal(t, string(said), "Warning: agent 3c9e session ended, failing task a/01\nfailed a/01\n")
}

func TestAgentDiesWithKilledRalph(t *testing.T) {
	p := newPlace(t, "#!/bin/sh\necho $$ >pid\ntouch ready\nexec sleep 600\n")
	cmd := p.command(filepath.Join(p.dir, ".bin", "ralph"), "build")
	assert.NilError(t, cmd.Start())
	poll.WaitOn(t, poll.FileExists(filepath.Join(p.dir, "ready")))
	assert.NilError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	assertGone(t, filepath.Join(p.dir, "pid"))
}

func TestClosedPipeReleasesTheTask(t *testing.T) {
	p := newPlace(t, claims+`while :; do echo '{"type":"assistant","message":{"content":[{"type":"text","text":"on and on "}]}}'; done`)
	cmd := p.command("sh", "-c", "{ ralph build; echo $? >code; } | head -n 3")
	out, err := cmd.CombinedOutput()
	assert.NilError(t, err, string(out))
	code, err := os.ReadFile(filepath.Join(p.dir, "code"))
	assert.NilError(t, err)
	assert.Equal(t, string(code), "1\n")
	assert.Assert(t, cmp.Contains(string(out), "Error: output was closed"))
	assert.Assert(t, cmp.Contains(p.task(t, "show", "a/01"), "Status:      open"))
	assert.Equal(t, p.task(t, "agent", "list"), "")
}

func TestInterruptInTerminal(t *testing.T) {
	p := newPlace(t, claims+"trap 'exit 0' INT\ntouch ready\nwhile :; do sleep 0.05; done\n")
	cmd := p.command(filepath.Join(p.dir, ".bin", "ralph"), "build")
	terminal, err := pty.Start(cmd)
	assert.NilError(t, err)
	defer func() { _ = terminal.Close() }()
	poll.WaitOn(t, poll.FileExists(filepath.Join(p.dir, "ready")))
	_, err = terminal.WriteString("\x03")
	assert.NilError(t, err)
	var said strings.Builder
	_, _ = terminal.WriteTo(&said) // ends with EIO
	_ = cmd.Wait()
	assert.Equal(t, cmd.ProcessState.ExitCode(), loop.Interrupted.ExitCode())
	shown := screentest.Render(said.String())
	assert.Assert(t, cmp.Contains(shown, "\nWaiting for claude to finish cleanup... Press Ctrl+C again to force quit.\nfailed a/01\n"))
	assert.Assert(t, cmp.Regexp(`(?m)^• Iteration 1: interrupted a/01 \|`, shown))
}

func assertGone(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	assert.NilError(t, err)
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(b)) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return poll.Success()
		}
		return poll.Continue("process %s lives", b)
	})
}
