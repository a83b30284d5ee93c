//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// What the user has configured of the agent is in the sandbox, without secrets,
// and is the user's again with every command.
func TestTheUsersConfigurationOfTheAgent(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const key = "sk-ant-e2e-" + "in-a-configuration-file"
		of := func(name string) string { return filepath.Join(w.home, ".claude", name) }
		w.write(t, of("CLAUDE.md"), "Be brief.\n")
		w.write(t, of("settings.json"), `{"model": "opus", "env": {"ANTHROPIC_API_KEY": "`+key+`", "EDITOR": "vi"}}`)
		w.write(t, of(".credentials.json"), `{"token": "`+key+`"}`)
		w.write(t, of("projects/other/session.jsonl"), "said elsewhere\n")
		w.write(t, of("skills/one/run.sh"), "#!/bin/sh\n")
		assert.NilError(t, os.Chmod(of("skills/one/run.sh"), 0o755))
		w.write(t, filepath.Join(w.home, ".codex", "AGENTS.md"), "Of another agent.\n")
		assert.NilError(t, os.Symlink("/etc/passwd", of("commands")))
		w.own(t, w.home)
		flags := []string{"--agent", "claude", "--image", w.imageOf(t, map[string]string{"/usr/local/bin/claude": "#!/bin/sh\necho not used\n"})}
		inside := func(script string, more ...string) result {
			t.Helper()
			args := append(append(flags, more...), "shell", "--", "sh", "-c", "cd; "+script)
			return w.ralph(t, args...).expect(t, 0)
		}

		res := inside(`find .claude .codex -type f 2>/dev/null | sort; cat .claude/CLAUDE.md .claude/settings.json; test -x .claude/skills/one/run.sh && test -O .claude/CLAUDE.md; echo $?`)
		assert.Equal(t, res.stdout, ".claude/CLAUDE.md\n.claude/settings.json\n.claude/skills/one/run.sh\nBe brief.\n{\n  \"env\": {\n    \"EDITOR\": \"vi\"\n  },\n  \"model\": \"opus\"\n}\n0\n")
		assert.Check(t, is.Contains(res.stderr, "Warning: "+of("settings.json")+" goes in without ANTHROPIC_API_KEY"))
		assert.Check(t, is.Contains(res.stderr, "Warning: "+of("commands")+" is left out: it is a symbolic link"))

		// It is told once, and what is changed inside is lost.
		inside("echo changed >.claude/CLAUDE.md")
		w.write(t, of("settings.json"), `{"model": "haiku"}`)
		assert.NilError(t, os.RemoveAll(of("skills")))
		res = inside("cat .claude/CLAUDE.md .claude/settings.json; ls .claude/skills/one")
		assert.Equal(t, res.stdout, "Be brief.\n{\"model\": \"haiku\"}")
		assert.Check(t, !strings.Contains(inside("true").stderr, "is left out"))

		// The user can do without, and is told if it cannot be read.
		assert.Equal(t, inside("find .claude -type f", "--no-host-config").stdout, "")
		assert.NilError(t, os.Chmod(of("CLAUDE.md"), 0))
		stderr := w.ralph(t, append(flags, "shell", "--", "true")...).expect(t, 1).stderr
		assert.Check(t, is.Contains(stderr, "Error: reading your configuration of claude: "))
		assert.Check(t, is.Contains(stderr, "--no-host-config"))
		w.ok(t, append(flags, "task", "list")...)
	})
}

// Nothing is said of what is not there, but to those who look for errors.
func TestNoConfigurationOfTheAgent(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		flags := []string{"--agent", "claude", "--image", w.imageOf(t, map[string]string{"/usr/local/bin/claude": "#!/bin/sh\n"})}
		missing := "There is no configuration of claude in " + filepath.Join(w.home, ".claude")
		assert.Check(t, !strings.Contains(w.ralph(t, append(flags, "shell", "--", "true")...).expect(t, 0).stderr, missing))
		debugged := run(t, w.docker(append(append([]string{"--debug", "ralph"}, flags...), "shell", "--", "true")...)).expect(t, 0)
		assert.Check(t, is.Contains(debugged.stderr, missing))

		w.write(t, filepath.Join(w.home, ".gitconfig"), "")
		res := w.ralph(t, append(flags, "shell", "--", "git", "config", "user.name")...).expect(t, 0)
		assert.Check(t, is.Contains(res.stderr, "Warning: git has no user.name and user.email here"))
	})
}

// It is so in a microVM too, where keys stay with its program's proxy.
func TestTheUsersConfigurationInAMicroVM(t *testing.T) {
	inMicroVMs(t, func(t *testing.T, w *world) {
		w.write(t, filepath.Join(w.home, ".claude", "CLAUDE.md"), "Be brief.\n")
		w.own(t, w.home)
		flags := w.withClaude(t, "#!/bin/sh\necho not used\n")
		assert.Equal(t, w.ok(t, append(flags, "shell", "--", "sh", "-c", "cd; cat .claude/CLAUDE.md; echo changed >.claude/CLAUDE.md")...), "Be brief.\n")
		assert.Equal(t, w.ok(t, append(flags, "shell", "--", "sh", "-c", "cd; cat .claude/CLAUDE.md")...), "Be brief.\n")
		assert.Equal(t, w.ok(t, append(flags, "--no-host-config", "shell", "--", "sh", "-c", "cd; ls .claude")...), "")
	})
}
