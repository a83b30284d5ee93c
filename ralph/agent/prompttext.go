package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// Bounds of one command in a prompt.
const (
	promptCommandTime   = 30 * time.Second
	promptCommandOutput = 256 << 10
)

var (
	frontMatter   = regexp.MustCompile(`(?s)\A---\n.*?\n---\n`)
	promptCommand = regexp.MustCompile("!`([^`\n]+)`")
)

// promptText returns the prompt of the session's mode for agents that know no
// skills: without its front matter, with the output of the commands in it.
// Claude does this by itself.
func promptText(ctx context.Context, s Session) (string, error) {
	for _, p := range s.Prompts {
		if p.Skill != "ralph-"+string(s.Mode) {
			continue
		}
		text := frontMatter.ReplaceAllString(p.Text, "")
		text = promptCommand.ReplaceAllStringFunc(text, func(found string) string {
			return commandOutput(ctx, s.Env, promptCommand.FindStringSubmatch(found)[1])
		})
		return text + noteText(s.Note), nil
	}
	return "", fmt.Errorf("there is no prompt to %s with", s.Mode)
}

// commandOutput runs a command of a prompt. What goes wrong with it stands in
// the place of its output: the agent may still make something of the rest.
func commandOutput(ctx context.Context, env []string, command string) string {
	ctx, cancel := context.WithTimeout(ctx, promptCommandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env = env
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	text := strings.ToValidUTF8(out.String(), "")
	if len(text) > promptCommandOutput {
		text = strings.ToValidUTF8(text[:promptCommandOutput], "") + "\n(cut)"
	}
	if err != nil {
		if ctx.Err() != nil {
			err = errors.Join(err, ctx.Err())
		}
		text += fmt.Sprintf("\n(%s: %s)", command, err)
	}
	return strings.TrimSpace(text)
}
