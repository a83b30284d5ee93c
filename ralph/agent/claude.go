package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/wire/event"
)

// claude is Anthropic's Claude Code.
type claude struct{}

func (claude) Name() string { return "claude" }

// Prompt returns a slash command: the text is in the skill of that name.
func (claude) Prompt(s Session) string { return "/ralph-" + string(s.Mode) }

func (claude) Backend(s Session) string { return claudeBackend(s.Getenv) }

func (claude) Model(s Session) string {
	return resolveModel(s.Model, claudeBackend(s.Getenv), filepath.Dir(s.Program))
}

func (claude) Check(s Session) error {
	_, err := findAgent("claude", claudePackage)
	if err != nil {
		return err
	}
	if s.Sandboxed {
		_, err = configDir(s)
	}
	return err
}

const claudePackage = "npm install -g @anthropic-ai/claude-code"

// Prepare rewrites the skills and hooks before every run in a sandbox, so that no run can
// change those of the next one. Without a sandbox the user's skills are used.
func (c claude) Prepare(_ context.Context, s Session) (Command, error) {
	path, err := findAgent("claude", claudePackage)
	if err != nil {
		return Command{}, err
	}
	cmd := Command{Path: path, Args: []string{"-p"}, Stdin: s.Ask}
	if s.Mode != Run {
		cmd.Args = append(cmd.Args, c.Prompt(s))
	}
	cmd.Args = append(cmd.Args, "--output-format=stream-json", "--verbose")
	if bypassed(s) {
		cmd.Args = append(cmd.Args, "--dangerously-skip-permissions")
	}
	if s.BudgetUSD > 0 {
		cmd.Args = append(cmd.Args, "--max-budget-usd", strconv.FormatFloat(s.BudgetUSD, 'f', 4, 64))
	}
	if s.Model != "" {
		cmd.Args = append(cmd.Args, "--model", c.Model(s))
	}
	if s.Sandboxed {
		disableWakeup(&cmd)
	}
	return cmd, c.setUp(s, &cmd)
}

// disableWakeup disables what continues a session after its end: the wake-up tool,
// schedules, and the daemon of "claude --bg", which restarts killed sessions.
func disableWakeup(cmd *Command) {
	cmd.Args = append(cmd.Args, "--disallowedTools=ScheduleWakeup")
	cmd.Env = append(cmd.Env, "CLAUDE_CODE_DISABLE_AGENT_VIEW=1", "CLAUDE_CODE_DISABLE_CRON=1")
}

// setUp installs skills and hooks in a sandbox.
func (claude) setUp(s Session, cmd *Command) error {
	if !s.Sandboxed {
		return nil
	}
	// Without IS_SANDBOX claude refuses to skip permission prompts as root.
	cmd.Env = append(cmd.Env, "IS_SANDBOX=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
	dir, err := configDir(s)
	if err != nil {
		return err
	}
	for _, p := range s.Prompts {
		text := p.Text
		if p.Skill == "ralph-"+string(s.Mode) {
			text += noteText(s.Note)
		}
		if err := writeSkill(filepath.Join(dir, "skills", p.Skill), text); err != nil {
			return fmt.Errorf("installing the skill %s: %w", p.Skill, err)
		}
	}
	err = RegisterHooks(filepath.Join(dir, "settings.json"), func(name string) string {
		return ShellQuote(s.Program) + " _hook " + name
	})
	if err != nil { // the loop also releases tasks
		cmd.Warning = err.Error()
	}
	return nil
}

func (claude) Decoder() event.Decoder { return stream.Claude() }

// configDir returns claude's configuration directory.
func configDir(s Session) (string, error) {
	if dir := s.Getenv("CLAUDE_CONFIG_DIR"); dir != "" {
		return dir, nil
	}
	home := s.Getenv("HOME")
	if home == "" {
		return "", hint.Wrap(errors.New("finding the skills of claude: HOME is not set"), "set HOME to the agent's home directory")
	}
	return filepath.Join(home, ".claude"), nil
}

// writeSkill replaces dir/SKILL.md atomically, even if an agent has made it a link or a directory.
func writeSkill(dir, text string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, "SKILL.md")
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return atomicwriter.WriteFile(path, []byte(text), 0o644)
}

// noteText formats a note for the end of a prompt. It may contain output of the
// repository's programs, which must not expand as commands.
func noteText(note string) string {
	if note == "" {
		return ""
	}
	return "\n## From the session before\n\n" + strings.ReplaceAll(note, "!`", "! `")
}
