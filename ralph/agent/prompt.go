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

// promptFiles are the words by which agents are told what to do.
//
//go:embed prompts
var promptFiles embed.FS

// maxPromptSize bounds a repository's own prompt, in bytes.
const maxPromptSize = 1 << 20

// Prompt is one prompt as a skill: Markdown with a front matter that names it.
type Prompt struct {
	Skill string // e.g. "ralph-plan"
	Text  string
}

// BuiltinPrompts returns our own prompts.
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

// LoadPrompts returns the prompts of ralph-plan, ralph-build and ralph-spec. Those
// for which dir has a file plan.md, build.md or spec.md come from there. A
// file without front matter gets the one of ours.
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

// RefusedMark stands for the list of places in the text that [RefusedPrompt] returns.
const RefusedMark = "{refused}"

// RefusedPrompt returns what a session is told of connections that were refused in the
// one before: the text of the file refused.md in dir, or ours. With dir "" it is
// ours. A text without [RefusedMark] gets the list at its end.
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

// withFrontMatter returns text, if need be with the front matter of model.
func withFrontMatter(text, model string) string {
	if hasFrontMatter(text) {
		return text
	}
	matter, _, _ := strings.Cut(strings.TrimPrefix(model, frontMatterFence), "\n"+frontMatterFence)
	return frontMatterFence + matter + "\n" + frontMatterFence + text
}

// hasFrontMatter tells it from a text that begins with a ruler.
func hasFrontMatter(text string) bool {
	rest, found := strings.CutPrefix(text, frontMatterFence)
	return found && strings.Contains("\n"+rest+"\n", "\n"+frontMatterFence)
}
