package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/moby/sys/atomicwriter"
)

// Interactive starts an interactive claude. In a sandbox it suppresses the dialogs about
// trusting the worktree and skipping permissions.
func (c claude) Interactive(_ context.Context, s Session) (Command, error) {
	path, err := findAgent("claude", claudePackage)
	if err != nil {
		return Command{}, err
	}
	cmd := Command{Path: path}
	if bypassed(s) {
		cmd.Args = append(cmd.Args, "--dangerously-skip-permissions")
	}
	if s.Model != "" {
		cmd.Args = append(cmd.Args, "--model", c.Model(s))
	}
	if err := c.setUp(s, &cmd); err != nil || !s.Sandboxed {
		return cmd, err
	}
	if bypassed(s) {
		cmd.Args = append(cmd.Args, "--settings", `{"skipDangerousModePermissionPrompt":true}`)
	}
	if err := completeOnboarding(s); err != nil {
		cmd.Warning = err.Error() // claude shows its dialogs
	}
	return cmd, nil
}

// keyTail is the length of the part of an API key that claude stores.
const keyTail = 20

// completeOnboarding answers the dialogs of claude's first start in its state file.
func completeOnboarding(s Session) error {
	dir, err := configDir(s)
	if err != nil {
		return err
	}
	if s.Getenv("CLAUDE_CONFIG_DIR") == "" {
		dir = filepath.Dir(dir) // the home directory
	}
	path := filepath.Join(dir, ".claude.json")
	state := map[string]any{}
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("reading claude's state: %w", err)
	default:
		if err := json.Unmarshal(content, &state); err != nil {
			return fmt.Errorf("reading claude's state in %s: %w", path, err)
		}
	}
	worktree, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("finding the current directory: %w", err)
	}
	state["hasCompletedOnboarding"] = true
	if bypassed(s) {
		state["bypassPermissionsModeAccepted"] = true
	}
	member(member(state, "projects"), worktree)["hasTrustDialogAccepted"] = true
	if key := s.Getenv("ANTHROPIC_API_KEY"); key != "" {
		answers := member(state, "customApiKeyResponses")
		approved, _ := answers["approved"].([]any)
		if tail := key[max(0, len(key)-keyTail):]; !slices.Contains(approved, any(tail)) {
			answers["approved"] = append(approved, tail)
		}
	}
	if content, err = json.MarshalIndent(state, "", "  "); err != nil {
		return fmt.Errorf("writing claude's state: %w", err)
	}
	if err := atomicwriter.WriteFile(path, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing claude's state: %w", err)
	}
	return nil
}

// member returns the object called name in another one, creating it if necessary.
func member(object map[string]any, name string) map[string]any {
	inner, ok := object[name].(map[string]any)
	if !ok {
		inner = map[string]any{}
		object[name] = inner
	}
	return inner
}
