package agent

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"
)

//go:embed prompts
var promptFiles embed.FS

// maxPromptSize limits a repository's prompt, in bytes.
const maxPromptSize = 1 << 20

// Prompt is a skill: Markdown with front matter.
type Prompt struct {
	Skill string // e.g. "ralph-plan"
	Text  string
}

// BuiltinPrompts returns the built-in prompts.
func BuiltinPrompts() ([]Prompt, error) {
	var prompts []Prompt
	for _, name := range promptNames() {
		text, err := promptFiles.ReadFile("prompts/" + name + ".md")
		if err != nil {
			return nil, fmt.Errorf("reading the prompt %s: %w", name, err)
		}
		prompts = append(prompts, Prompt{Skill: "ralph-" + name, Text: string(text)})
	}
	return prompts, nil
}

func promptNames() []string { return []string{"plan", "build", "spec"} }

// LoadPrompts returns the built-in prompts, replaced by plan.md, build.md and spec.md in
// dir. A file without front matter gets the built-in one.
func LoadPrompts(dir string) ([]Prompt, error) {
	prompts, err := BuiltinPrompts()
	if err != nil {
		return nil, err
	}
	for i, name := range promptNames() {
		switch own, err := readPrompt(filepath.Join(dir, name+".md")); {
		case err == nil:
			prompts[i].Text = withFrontMatter(own, prompts[i].Text)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("reading the repository's prompt: %w", err)
		}
	}
	return prompts, nil
}

const refusedFile = "refused.md"

// RefusedMark is the placeholder for the list of blocked connections.
const RefusedMark = "{refused}"

// RefusedPrompt returns the note about connections that were blocked in the previous
// session: refused.md in dir, or the built-in one. Without [RefusedMark] in it, the list
// is appended.
func RefusedPrompt(dir string) (string, error) {
	text, err := promptFiles.ReadFile("prompts/" + refusedFile)
	if err != nil {
		return "", fmt.Errorf("reading the prompt %s: %w", refusedFile, err)
	}
	if dir == "" {
		return string(text), nil
	}
	switch own, err := readPrompt(filepath.Join(dir, refusedFile)); {
	case errors.Is(err, fs.ErrNotExist):
		return string(text), nil
	case err != nil:
		return "", fmt.Errorf("reading the repository's prompt: %w", err)
	case strings.Contains(own, RefusedMark):
		return own, nil
	default:
		return strings.TrimRight(own, "\n") + "\n\n" + RefusedMark + "\n", nil
	}
}

func readPrompt(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxPromptSize:
		return "", fmt.Errorf("%s is larger than 1 MiB", path)
	}
	b, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(b)) == "" {
		return "", hint.Wrap(fmt.Errorf("%s is empty", path), "write a prompt, or delete the file to use the built-in one")
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n"), err
}

const frontMatterFence = "---\n"

// withFrontMatter adds the front matter of model if text has none.
func withFrontMatter(text, model string) string {
	if hasFrontMatter(text) {
		return text
	}
	matter, _, _ := strings.Cut(strings.TrimPrefix(model, frontMatterFence), "\n"+frontMatterFence)
	return frontMatterFence + matter + "\n" + frontMatterFence + text
}

// hasFrontMatter distinguishes front matter from a leading rule.
func hasFrontMatter(text string) bool {
	rest, found := strings.CutPrefix(text, frontMatterFence)
	return found && strings.Contains("\n"+rest+"\n", "\n"+frontMatterFence)
}
