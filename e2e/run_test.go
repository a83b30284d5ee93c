//go:build unix

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/e2e/modelapi"
)

// "run" and "shell": an agent or a shell at the user's terminal.

// At a terminal, the shell agent's own interface is a shell of the sandbox.
func TestRunAtATerminal(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		tm := w.shell(t, "run")
		tm.types(t, shortPrompt)
		tm.types(t, "echo the $((6*7)) in $PWD; test -t 0 && test -t 1 && echo a terminal\r")
		tm.screen.WaitFor(t, "the 42 in "+w.repo)
		tm.screen.WaitFor(t, "a terminal")
		// Old engines set the size only after the start.
		tm.types(t, "until stty size | grep '24 80'; do sleep 0.1; done; id -u\r")
		tm.screen.WaitFor(t, "24 80")
		// Control sequences of full-screen programs are passed through.
		tm.types(t, `printf '\033]0;ti''tle\007\033[15;10H!\n'`+"\r")
		tm.screen.WaitFor(t, "\x1b]0;title\x07\x1b[15;10H!")
		tm.types(t, "exit 7\r")
		w.assertScreen(t, tm.wait(t).expect(t, 7).stdout, "run")
		w.assertTerminalRestored(t)
		assert.Assert(t, w.sandbox(t).Running)
	})
}

// Without a terminal the agent answers once.
func TestRunWithoutATerminal(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		res := w.ralph(t, "run", "-p", "echo answer $((6*7)) >&2; test -t 1 || echo no terminal").expect(t, 0)
		assert.Check(t, is.Contains(res.stdout, "\nanswer 42\nno terminal\n\nDone.\n"))

		asked := w.docker("ralph", "run")
		asked.Stdin = strings.NewReader("echo piped\n")
		assert.Check(t, is.Contains(run(t, asked).expect(t, 0).stdout, "\npiped\n"))

		w.ralph(t, "run", "-p", "exit 3").expect(t, 1)
		assert.Check(t, is.Contains(w.ok(t, "logs", "run", "--raw"), "exit code 3"))
		nothing := w.docker("ralph", "run")
		nothing.Stdin = strings.NewReader("")
		assert.Check(t, is.Contains(run(t, nothing).expect(t, 1).stderr, "pass a prompt with -p"))

		// Also at a terminal: the answer is text, and nothing else.
		at := w.shell(t, `run -p "test -t 0 || echo no key''board"`)
		assert.Check(t, is.Contains(at.wait(t).expect(t, 0).stdout, "no keyboard"))
		w.assertTerminalRestored(t)
	})
}

// Errors in the command line are reported before anything is started.
func TestRunChecksItsFlagsFirst(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		assert.Check(t, is.Contains(w.ralph(t, "run", "--nonsense").expect(t, 125).stderr, "unknown flag: --nonsense"))
		wrong := w.ralph(t, "run", "--agent", "nonsense").expect(t, 1).stderr
		assert.Check(t, is.Contains(wrong, "nonsense"))
		assert.Equal(t, wrong, w.ralph(t, "--agent", "nonsense", "run").expect(t, 1).stderr)
		assert.Check(t, is.Contains(w.ralph(t, "build", "--timeout=x").expect(t, 125).stderr, `invalid argument "x" for "--timeout" flag`))
		assert.Check(t, is.Contains(w.ralph(t, "run", "--help").expect(t, 0).stdout, "Usage:  docker ralph run"))
		assert.Check(t, is.Contains(w.ralph(t, "shell", "--help").expect(t, 0).stdout, "Usage:  docker ralph shell"))
		to := w.terminal(t, w.command("sh", "-c", "docker ralph run >"+w.dir+"/output; exit $?"))
		assert.Check(t, is.Contains(to.wait(t).expect(t, 1).stdout, "needs a terminal"))
		assert.Equal(t, len(w.containers(t)), 0)
	})
}

// Ctrl+C ends an answer, not the sandbox.
func TestCtrlCEndsARun(t *testing.T) {
	onDrivers(t, func(t *testing.T, w *world) {
		// The terminal signals all processes at once.
		tm := w.terminal(t, w.command("sh", "-c", "trap : INT; docker ralph run -p 'touch begun; sleep 600'; exit $?"))
		waitForFile(t, w.pathInside(t, "begun"))
		tm.press(t, "\x03")
		tm.wait(t).expect(t, 130)
		w.waitForIdle(t)
	})
}

// A shell is in the current folder, as the user, with what agents have.
func TestShell(t *testing.T) {
	andRemote(t, onDrivers, func(t *testing.T, w *world) {
		w.setenv("FROM_HOST", "given")
		w.write(t, filepath.Join(w.repo, "below", "file"), "")
		w.chown(t, w.repo)
		w.git(t, "add", "-A")
		w.git(t, "commit", "-qm", "below")
		below := w.docker("ralph", "--env", "FROM_HOST", "shell", "--", "sh", "-c", `echo "$PWD $FROM_HOST $RALPH_SCOPE_BRANCH"; touch made; git config user.name; ralph task plan-status`)
		below.Dir = filepath.Join(w.repo, "below")
		assert.Equal(t, run(t, below).expect(t, 0).stdout,
			filepath.Join(w.repo, "below")+" given main\nUna User\n0 open, 0 active, 0 done, 0 blocked, 0 deleted\n")
		w.assertOwnership(t)
		w.ok(t, "shell", "--", "rm", "below/made") // which is reported at the end of each shell

		// Data that goes elsewhere is not touched.
		assert.Equal(t, w.ok(t, "shell", "--", "printf", `\033]0;x\007\377\n`), "\x1b]0;x\x07\xff\n")
		piped := w.docker("ralph", "shell")
		piped.Stdin = strings.NewReader("echo from a script\nexit 4\n")
		assert.Equal(t, run(t, piped).expect(t, 4).stdout, "from a script\n")
		w.ralph(t, "shell", "--", "no-such-program").expect(t, 127)

		tm := w.shell(t, "shell")
		tm.types(t, shortPrompt)
		// Printed by the foreground program: shells lose a Ctrl+C between two commands.
		tm.types(t, "sh -c 'echo still $((6*7)); exec sleep 600'\r")
		tm.screen.WaitFor(t, "still 42")
		tm.press(t, "\x03")
		tm.types(t, "exit 5\r")
		w.assertScreen(t, tm.wait(t).expect(t, 5).stdout, "shell")
		w.assertTerminalRestored(t)
		assert.Check(t, is.Contains(w.ok(t, "logs", "shell"), "still 42\r\n"))
		w.assertOwnership(t)
	})
}

// A shell starts even if the agent does not.
func TestShellWithoutAnAgent(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		image := w.imageOf(t, map[string]string{"/usr/local/bin/claude": "#!/bin/sh\nexit 9\n"})
		flags := []string{"--agent", "claude", "--image", image}
		w.ralph(t, append(flags, "run", "-p", "hello")...).expect(t, 9)
		assert.Equal(t, w.ok(t, append(flags, "shell", "--", "sh", "-c", "claude; echo it ends with $?")...), "it ends with 9\n")
	})
}

// Keys stay outside for run and shell as for loops, and commits arrive.
func TestRunAndShellKeepKeysOutside(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		w.useDefaults()
		const key = "sk-ant-e2e-stays-outside"
		w.setenv("ANTHROPIC_API_KEY", key)
		image := w.imageOf(t, map[string]string{"/usr/local/bin/claude": "#!/bin/sh\nenv\necho asked: $(cat)\n"})
		flags := []string{"--agent", "claude", "--image", image}
		for _, args := range [][]string{{"run", "-p", "hello"}, {"shell", "--", "env"}} {
			res := w.ralph(t, append(flags, args...)...).expect(t, 0)
			assert.Check(t, !strings.Contains(res.stdout, key))
		}
		assert.Check(t, is.Contains(w.ok(t, append(flags, "shell", "--", "env")...), "ANTHROPIC_BASE_URL=http://"))
		w.ok(t, append(flags, "shell", "--", "sh", "-c", "echo x >x && git add x && git commit -q -m 'From a shell'")...)
		assert.Equal(t, w.git(t, "log", "-1", "--format=%s|%an"), "From a shell|Una User")
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
	})
}

// The real Claude Code at a terminal asks nothing that the sandbox has answered,
// and answers once.
func TestRunWithClaude(t *testing.T) {
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		base := claudeBase(t, w)
		w.useDefaults()
		_, url := w.serveModel(t, [][]modelapi.Turn{
			{modelapi.Bash("echo made >once"), modelapi.Say("Answered once.")},
			{modelapi.Bash("echo made >there"), modelapi.Say("It is there now.")},
		})
		w.setenv("ANTHROPIC_BASE_URL", url)
		w.setenv("ANTHROPIC_API_KEY", "sk-ant-e2e-at-a-terminal")
		flags := []string{"--agent", "claude", "--base", base}
		res := w.ralph(t, append(flags, "run", "-p", "Make once")...).expect(t, 0)
		assert.Check(t, is.Contains(res.stdout, "Answered once."))
		assert.Check(t, is.Contains(res.stdout, "━━ Done (success) | cost: $"))
		assert.Equal(t, w.readFile(t, w.pathInside(t, "once")), "made\n")

		tm := w.shell(t, strings.Join(append(flags, "run"), " "))
		tm.screen.WaitFor(t, "bypass")
		tm.press(t, "Make the file there")
		tm.screen.WaitFor(t, "there")
		tm.press(t, "\r")
		waitForFile(t, w.pathInside(t, "there"))
		tm.screen.WaitFor(t, "now.")
		tm.press(t, "\x03")
		tm.press(t, "\x03")
		tm.wait(t).expect(t, 0)
		w.assertTerminalRestored(t)
	})
}
