package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/atomicwriter"
)

// Hooks of Claude Code, by their file names in the original's layout.
const (
	PreCompact = "precompact"
	SessionEnd = "session_end"
)

// hookEvents maps hooks to event names of Claude Code.
func hookEvents() map[string]string {
	return map[string]string{PreCompact: "PreCompact", SessionEnd: "SessionEnd"}
}

// RegisterHooks registers the hooks that release a task when its session ends early in
// the Claude Code settings at path, with the command lines that command returns. They
// replace other hooks of the same events; all other settings are kept. Settings that are
// not a JSON object are an error.
func RegisterHooks(path string, command func(name string) string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("registering the hooks of ralph: %w", err)
		}
	}()
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // users link to settings elsewhere
	}
	mode := fs.FileMode(0o600)
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	after, err := addHooks(before, command)
	if err != nil {
		return fmt.Errorf("%s %w", path, err)
	}
	if bytes.Equal(before, after) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicwriter.WriteFile(path, after, mode)
}

// ShellQuote quotes s as a word of a shell command line.
func ShellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

type hookMatcher struct {
	Matcher string     `json:"matcher"`
	Hooks   []hookCall `json:"hooks"`
}

type hookCall struct {
	Type    string `json:"type"`
	Command string `json:"command"`
}

// addHooks adds the hooks to the settings. Settings that have them are not changed.
func addHooks(before []byte, command func(string) string) ([]byte, error) {
	after := bytes.TrimSpace(before)
	if len(after) == 0 {
		after = []byte("{}")
	}
	var settings, hooks map[string]json.RawMessage
	if json.Unmarshal(after, &settings) != nil || settings == nil {
		return nil, errors.New("is not a JSON object")
	}
	raw := settings["hooks"]
	if raw == nil || string(raw) == "null" {
		raw = []byte("{}")
	}
	if json.Unmarshal(raw, &hooks) != nil {
		return nil, errors.New(`has "hooks" that are not a JSON object`)
	}
	changed := false
	for _, name := range []string{PreCompact, SessionEnd} {
		list, err := marshal([]hookMatcher{{Matcher: "*", Hooks: []hookCall{{Type: "command", Command: command(name)}}}})
		if err != nil {
			return nil, err
		}
		if event := hookEvents()[name]; !sameJSON(hooks[event], list) {
			changed = true
			if raw, err = setJSON(raw, event, list); err != nil {
				return nil, err
			}
		}
	}
	if !changed {
		return before, nil
	}
	after, err := setJSON(after, "hooks", raw)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, after, "", indentOf(before)); err != nil {
		return nil, err
	}
	return append(out.Bytes(), '\n'), nil
}

func sameJSON(a, b []byte) bool {
	var x, y bytes.Buffer
	return len(a) > 0 && json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// indentOf returns the user's indentation: that of the first member.
func indentOf(settings []byte) string {
	_, rest, _ := bytes.Cut(settings, []byte("\n"))
	if i := slices.IndexFunc(rest, func(c byte) bool { return c != ' ' && c != '\t' }); i > 0 && rest[i] == '"' {
		return string(rest[:i])
	}
	return "  "
}
