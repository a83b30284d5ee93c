package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
	"github.com/docker-ralph/docker-ralph/wire/event"
)

// claude is Anthropic's Claude Code.
type claude struct{}

func (claude) Name() string { return "claude" }

// Prompt is a slash command: the words are in the skill of that name.
func (claude) Prompt(s Session) string { return "/ralph-" + string(s.Mode) }

func (claude) Backend(s Session) string { return claudeBackend(s.Getenv) }

func (claude) Model(s Session) string {
	return resolveModel(s.Model, claudeBackend(s.Getenv), filepath.Dir(s.Program))
}

func (claude) Check(s Session) error {
	_, err := findClaude()
	if err != nil {
		return err
	}
	if s.Sandboxed {
		_, err = configDir(s)
	}
	return err
}

func findClaude() (string, error) {
	path, err := exec.LookPath("claude")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", hint.Wrap(errors.New("claude is not installed or not on PATH"), "install it with %q", "npm install -g @anthropic-ai/claude-code")
	case err != nil:
		return "", fmt.Errorf("finding claude: %w", err)
	}
	return path, nil
}

// Prepare writes the skills and hooks anew before every run in a sandbox, so that no
// run can change what the next one is told. On a host the user's own skills
// are used, and nothing is written.
func (c claude) Prepare(_ context.Context, s Session) (Command, error) {
	path, err := findClaude()
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
		noAfterlife(&cmd)
	}
	return cmd, c.settle(s, &cmd)
}

// noAfterlife switches off what lets a session go on after its end: the tool by
// which claude wakes itself up, its schedules, and the daemon behind "claude
// --bg", which restarts what is killed.
func noAfterlife(cmd *Command) {
	cmd.Args = append(cmd.Args, "--disallowedTools=ScheduleWakeup")
	cmd.Env = append(cmd.Env, "CLAUDE_CODE_DISABLE_AGENT_VIEW=1", "CLAUDE_CODE_DISABLE_CRON=1")
}

// settle puts in place what claude finds in a sandbox.
func (claude) settle(s Session, cmd *Command) error {
	if !s.Sandboxed {
		return nil
	}
	// Without IS_SANDBOX claude refuses to work without prompts as root.
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
	if err != nil { // the loop gives tasks back too
		cmd.Warning = err.Error()
	}
	return nil
}

func (claude) Decoder() event.Decoder { return stream.Claude() }

// configDir is where claude looks for the user's settings and skills.
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

// writeSkill replaces dir/SKILL.md at once: a session that runs beside this
// one never reads half of it.
func writeSkill(dir, text string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".skill-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	_, err = tmp.WriteString(text)
	if err := errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), filepath.Join(dir, "SKILL.md"))
}

// noteText is what a prompt ends with when there is something to note. It may
// hold output of the repository's programs, none of which is a command that
// the prompt's expansion should run.
func noteText(note string) string {
	if note == "" {
		return ""
	}
	return "\n## From the session before\n\n" + strings.ReplaceAll(note, "!`", "! `")
}
