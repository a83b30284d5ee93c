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

// Limits of a command in a prompt.
const (
	promptCommandTimeout = 30 * time.Second
	promptCommandOutput  = 256 << 10 // bytes
)

var (
	frontMatter   = lazyregexp.New(`(?s)\A---\r?\n.*?\n---\r?\n`)
	promptCommand = lazyregexp.New("!`([^`\n]+)`")
	allowedTools  = lazyregexp.New(`(?m)^allowed-tools:(.*)$`)
	allowedEdit   = lazyregexp.New(`\b(?:Edit|Write)\b`)
	allowedBash   = lazyregexp.New(`\bBash\(([\w./ -]+):\*\)`)
)

// sessionPrompt returns the prompt of the session's mode.
func sessionPrompt(s Session) (string, bool) {
	for _, p := range s.Prompts {
		if p.Skill == "ralph-"+string(s.Mode) {
			return p.Text, true
		}
	}
	return "", false
}

// allowedCommands returns the command prefixes that the prompt's front matter allows,
// e.g. "git add".
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

// mayEdit reports whether the front matter allows writing files.
func mayEdit(s Session) bool {
	text, _ := sessionPrompt(s)
	return allowedEdit().MatchString(allowedTools().FindString(frontMatter().FindString(text)))
}

// promptText returns the prompt for agents without skills: without front matter, and with
// commands replaced by their output.
func promptText(ctx context.Context, s Session) (string, error) {
	if s.Mode == Run {
		return s.Ask, nil // not a template
	}
	text, found := sessionPrompt(s)
	if !found {
		return "", fmt.Errorf("no prompt for mode %s", s.Mode)
	}
	text = promptCommand().ReplaceAllStringFunc(frontMatter().ReplaceAllString(text, ""), func(found string) string {
		return commandOutput(ctx, s.Env, promptCommand().FindStringSubmatch(found)[1], promptCommandTimeout)
	})
	return text + noteText(s.Note), nil
}

// commandOutput runs a command of a prompt. Errors are part of the output.
func commandOutput(ctx context.Context, env []string, command string, timeout time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// Not killed by ctx: run kills it with all descendants.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", command)
	cmd.Env = env
	cmd.WaitDelay = time.Second
	var out, errs head
	cmd.Stdout, cmd.Stderr = &out, &errs
	code, err := run(ctx, cmd)
	text := out.String()
	switch {
	case ctx.Err() != nil:
		text += fmt.Sprintf("\n(%s: timed out after %s)", command, timeout)
	case err != nil:
		text += fmt.Sprintf("\n(%s: %s)", command, err)
	case code != 0:
		text += fmt.Sprintf("\n%s\n(%s: exit status %d)", strings.TrimSpace(errs.String()), command, code)
	}
	return strings.TrimSpace(text)
}

// run runs cmd until it exits or ctx is done, and kills all its processes.
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

// head collects the beginning of the output.
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
