//go:build unix

package e2e

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// sneak is a step that prints past the loop, which would clean it: straight to
// the output of every process there is.
const sneak = `for out in /proc/[0-9]*/fd/1; do printf '\033]0;title\007\033]52;c;eA==\007\033[2Jsneaked \033[32mgreen\033[0m\n' >$out; done 2>/dev/null; true`

// hide is a step that hides text in the output, and in the loop's log.
const hide = `for out in /proc/[0-9]*/fd/1 $(find .ralph/logs -type f); do printf '\033[8;30;40;7mhidden\n' >>$out; done 2>/dev/null; true`

// What the agent prints reaches the user as text and colour, whichever way it
// takes.
func TestNothingInTheOutputCommandsTheTerminal(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.plan(t, task{ID: "a", Title: "Sneak", Steps: []string{sneak, `printf 'open \033]0;title\007way\n'`, hide}})
		res := w.ralph(t, "build").expect(t, 0)
		out := res.stdout + res.stderr
		assert.Check(t, is.Contains(out, "sneaked \x1b[32mgreen\x1b[0m\n"))
		for _, sequence := range []string{"\x1b]", "\x1b[2J", "\a"} {
			assert.Check(t, !strings.Contains(out, sequence), "%q in %q", sequence, out)
		}
		for _, out := range []string{res.stdout, w.ok(t, "logs")} {
			_, after, found := strings.Cut(out, "\x1b[7mhidden")
			assert.Check(t, found, "%q", out)
			assert.Check(t, is.Contains(after, "\x1b[0m"), "the colours go on after it")
		}

		w.plan(t, task{ID: "b", Title: "Sneak again", Steps: []string{sneak}})
		term := w.terminal(t, w.docker("ralph", "build"))
		term.wait(t).expect(t, 0)
		seen := term.screen.String()
		assert.Check(t, is.Contains(seen, "sneaked "))
		for _, sequence := range []string{"\x1b]0", "\x1b]52", "\x1b[2J"} {
			assert.Check(t, !strings.Contains(seen, sequence), "%q in %q", sequence, seen)
		}
	})
}
