package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/ralph/agent/event"
	"github.com/docker-ralph/docker-ralph/ralph/agent/stream"
)

// headless is an agent that takes a prompt, works without asking, and exits.
type headless struct {
	name string
	// install is the command that installs it.
	install string
	backend string
	decoder func() event.Decoder
	// command returns how it is started with a prompt. bypass says that it
	// does not ask for permissions.
	command func(s Session, prompt string, bypass bool) (Command, error)
}

// headlessAgents are built in. Their command lines are those that their makers
// document for unattended use.
func headlessAgents() []Adapter {
	return []Adapter{
		headless{"codex", "npm install -g @openai/codex", "openai", stream.Codex, codexCommand},
		headless{"gemini", "npm install -g @google/gemini-cli", "google", stream.Gemini, geminiCommand},
		headless{"opencode", "npm install -g opencode-ai", "", stream.Opencode, opencodeCommand},
		headless{"crush", "npm install -g @charmland/crush", "", event.PlainText, crushCommand},
		headless{"copilot", "npm install -g @github/copilot", "github", stream.Copilot, copilotCommand},
	}
}

func (h headless) Name() string            { return h.name }
func (h headless) Prompt(s Session) string { return "ralph-" + string(s.Mode) }
func (h headless) Backend(Session) string  { return h.backend }
func (h headless) Decoder() event.Decoder  { return h.decoder() }
func (h headless) Model(s Session) string {
	return resolveModel(s.Model, h.backend, filepath.Dir(s.Program))
}

func (h headless) Check(Session) error {
	_, err := findAgent(h.name, h.install)
	return err
}

func findAgent(name, install string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%s is not installed, or not on PATH. Install it: %s", name, install)
	case err != nil:
		return "", fmt.Errorf("finding %s: %w", name, err)
	}
	return path, nil
}

func (h headless) Prepare(ctx context.Context, s Session) (Command, error) {
	path, err := findAgent(h.name, h.install)
	if err != nil {
		return Command{}, err
	}
	text, err := promptText(ctx, s)
	if err != nil {
		return Command{}, err
	}
	s.Model = h.Model(s)
	cmd, err := h.command(s, text, s.Danger || s.Sandboxed && s.Bypass)
	cmd.Path = path
	return cmd, err
}

// codexCommand: without bypass codex keeps its commands to the work tree, by
// its own means. CODEX_HOME has to exist.
func codexCommand(s Session, prompt string, bypass bool) (Command, error) {
	cmd := Command{Args: []string{"exec", "--json", "--skip-git-repo-check"}, Stdin: prompt}
	if bypass {
		cmd.Args = append(cmd.Args, "--dangerously-bypass-approvals-and-sandbox")
	} else {
		cmd.Args = append(cmd.Args, "--sandbox", "workspace-write")
	}
	if s.Model != "" {
		cmd.Args = append(cmd.Args, "--model", s.Model)
	}
	cmd.Args = append(cmd.Args, "-")
	if home := s.Getenv("CODEX_HOME"); home != "" {
		if err := os.MkdirAll(home, 0o700); err != nil {
			return cmd, fmt.Errorf("creating the folder of codex: %w", err)
		}
	}
	return cmd, nil
}

// geminiCommand: the prompt on standard input has no limit of length; -p makes
// gemini work without a terminal.
func geminiCommand(s Session, prompt string, bypass bool) (Command, error) {
	cmd := Command{Args: []string{"--output-format", "stream-json"}, Stdin: prompt}
	mode := "auto_edit"
	if bypass {
		mode = "yolo"
		cmd.Args = append(cmd.Args, "--skip-trust")
	}
	cmd.Args = append(cmd.Args, "--approval-mode", mode)
	if s.Model != "" {
		cmd.Args = append(cmd.Args, "--model", s.Model)
	}
	cmd.Args = append(cmd.Args, "-p", "Do what is written above.")
	if s.Getenv("GEMINI_API_KEY") != "" && s.Getenv("GEMINI_DEFAULT_AUTH_TYPE") == "" && s.Getenv("GOOGLE_GENAI_USE_VERTEXAI") == "" {
		cmd.Env = append(cmd.Env, "GEMINI_DEFAULT_AUTH_TYPE=gemini-api-key")
	}
	return cmd, nil
}

// opencodeCommand: a message on standard input is the prompt.
func opencodeCommand(s Session, prompt string, bypass bool) (Command, error) {
	cmd := Command{Args: []string{"run", "--format", "json"}, Stdin: prompt}
	if bypass {
		cmd.Args = append(cmd.Args, "--auto")
	}
	if s.Model != "" {
		cmd.Args = append(cmd.Args, "--model", s.Model)
	}
	if s.Sandboxed {
		cmd.Env = append(cmd.Env, "OPENCODE_DISABLE_AUTOUPDATE=1")
	}
	return cmd, nil
}

// crushCommand: crush run asks for nothing. It prints text only.
func crushCommand(s Session, prompt string, _ bool) (Command, error) {
	cmd := Command{Args: []string{"run", "--quiet"}, Stdin: prompt}
	if s.Model != "" {
		cmd.Args = append(cmd.Args, "--model", s.Model)
	}
	if s.Sandboxed {
		cmd.Env = append(cmd.Env, "CRUSH_DISABLE_METRICS=1", "CRUSH_DISABLE_PROVIDER_AUTO_UPDATE=1")
	}
	return cmd, nil
}

// copilotCommand: a prompt on standard input works like -p.
func copilotCommand(s Session, prompt string, bypass bool) (Command, error) {
	cmd := Command{Args: []string{"--output-format", "json", "--no-ask-user"}, Stdin: prompt}
	if bypass {
		cmd.Args = append(cmd.Args, "--allow-all")
	}
	if s.Model != "" {
		cmd.Args = append(cmd.Args, "--model", s.Model)
	}
	if s.Sandboxed {
		cmd.Env = append(cmd.Env, "COPILOT_AUTO_UPDATE=false")
	}
	return cmd, nil
}
