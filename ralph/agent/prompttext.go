package agent

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Bounds of one command in a prompt.
const (
	promptCommandTime   = 30 * time.Second
	promptCommandOutput = 256 << 10 // bytes
)

var (
	frontMatter   = lazyregexp.New(`(?s)\A---\r?\n.*?\n---\r?\n`)
	promptCommand = lazyregexp.New("!`([^`\n]+)`")
	allowedTools  = lazyregexp.New(`(?m)^allowed-tools:(.*)$`)
	allowedEdit   = lazyregexp.New(`\b(?:Edit|Write)\b`)
	allowedBash   = lazyregexp.New(`\bBash\(([\w./ -]+):\*\)`)
)

// sessionPrompt is the prompt of the session's mode.
func sessionPrompt(s Session) (string, bool) {
	for _, p := range s.Prompts {
		if p.Skill == "ralph-"+string(s.Mode) {
			return p.Text, true
		}
	}
	return "", false
}

// allowedCommands returns how the commands begin that the prompt's front
// matter allows without asking, e.g. "git add".
func allowedCommands(s Session) []string {
	text, _ := sessionPrompt(s)
	var commands []string
	for _, line := range allowedTools().FindAllString(frontMatter().FindString(text), -1) {
		for _, found := range allowedBash().FindAllStringSubmatch(line, -1) {
			commands = append(commands, strings.TrimSpace(found[1]))
		}
	}
	return commands
}

// mayEdit says whether the front matter allows to write files.
func mayEdit(s Session) bool {
	text, _ := sessionPrompt(s)
	return allowedEdit().MatchString(allowedTools().FindString(frontMatter().FindString(text)))
}

// promptText returns the prompt of the session's mode for agents that know no
// skills: without its front matter, with the output of the commands in it.
// Claude does this by itself.
func promptText(ctx context.Context, s Session) (string, error) {
	if s.Mode == Run {
		return s.Ask, nil // what the user says is no template
	}
	text, found := sessionPrompt(s)
	if !found {
		return "", fmt.Errorf("no prompt for mode %s", s.Mode)
	}
	text = promptCommand().ReplaceAllStringFunc(frontMatter().ReplaceAllString(text, ""), func(found string) string {
		return commandOutput(ctx, s.Env, promptCommand().FindStringSubmatch(found)[1], promptCommandTime)
	})
	return text + noteText(s.Note), nil
}

// commandOutput runs a command of a prompt. What goes wrong with it stands in
// the place of its output: the agent may still make something of the rest.
func commandOutput(ctx context.Context, env []string, command string, limit time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// Not killed by ctx: proc does it, with all descendants.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", command)
	cmd.Env = env
	cmd.WaitDelay = time.Second
	var out, errs head
	cmd.Stdout, cmd.Stderr = &out, &errs
	code, err := run(ctx, cmd)
	text := out.String()
	switch {
	case ctx.Err() != nil:
		text += fmt.Sprintf("\n(%s: ended after %s)", command, limit)
	case err != nil:
		text += fmt.Sprintf("\n(%s: %s)", command, err)
	case code != 0:
		text += fmt.Sprintf("\n%s\n(%s: exit status %d)", strings.TrimSpace(errs.String()), command, code)
	}
	return strings.TrimSpace(text)
}

// run runs cmd until it ends or ctx does. Nothing of it stays behind.
func run(ctx context.Context, cmd *exec.Cmd) (code int, err error) {
	child, err := StartChild(cmd)
	if err != nil {
		return 0, err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		child.Kill()
	}
	return child.Wait()
}

// head keeps the beginning of what is written to it.
type head struct {
	kept []byte
	cut  bool
}

func (h *head) Write(b []byte) (int, error) {
	n := min(len(b), promptCommandOutput-len(h.kept))
	h.kept = append(h.kept, b[:n]...)
	h.cut = h.cut || n < len(b)
	return len(b), nil
}

func (h *head) String() string {
	text := termsafe.Strip(strings.ToValidUTF8(string(slices.Clip(h.kept)), ""))
	if h.cut {
		text += "\n(cut)"
	}
	return text
}
