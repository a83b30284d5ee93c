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

// The events of Claude Code that have a hook, by the name that the hook's file
// has in the original's layout.
const (
	PreCompact = "precompact"
	SessionEnd = "session_end"
)

// hookEvents maps the hooks' names to what Claude Code calls their events.
func hookEvents() map[string]string {
	return map[string]string{PreCompact: "PreCompact", SessionEnd: "SessionEnd"}
}

// RegisterHooks enters in the settings file of Claude Code at path what it runs inside
// a session, so that a task goes back to the backlog when its session ends early: the
// command lines that command returns for the hooks' names. They take the place of all
// other hooks of their events; what else the file says stays. A file that is no JSON
// object is an error, and is left as it is.
func RegisterHooks(path string, command func(name string) string) error {
	path, err := followLinks(path)
	if err != nil {
		return fmt.Errorf("registering the hooks of ralph: %w", err)
	}
	before, mode, err := readSettings(path)
	if err != nil {
		return fmt.Errorf("registering the hooks of ralph: %w", err)
	}
	after, err := enterHooks(before, command)
	if err != nil {
		return fmt.Errorf("registering the hooks of ralph: %s %w", path, err)
	}
	if bytes.Equal(before, after) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("registering the hooks of ralph: %w", err)
	}
	if err := atomicwriter.WriteFile(path, after, mode); err != nil {
		return fmt.Errorf("registering the hooks of ralph: %w", err)
	}
	return nil
}

// ShellQuote returns a word of a shell command line that stands for s.
func ShellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// maxLinks bounds a chain of symbolic links.
const maxLinks = 40

// followLinks returns the file that path stands for, which need not exist yet:
// users keep their settings elsewhere, and link to them.
func followLinks(path string) (string, error) {
	for range maxLinks {
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return path, nil
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink == 0:
			return path, nil
		}
		target, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(target) {
			// Not joined by text: ".." is about where the folder really is.
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				return "", err
			}
			target = filepath.Join(dir, target)
		}
		path = target
	}
	return "", fmt.Errorf("%s is a symbolic link loop", path)
}

func readSettings(path string) (content []byte, mode fs.FileMode, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0o600, nil
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s is not a regular file", path)
	}
	content, err = os.ReadFile(path)
	return content, info.Mode().Perm(), err
}

type hookMatcher struct {
	Matcher string     `json:"matcher"`
	Hooks   []hookCall `json:"hooks"`
}

type hookCall struct {
	Type    string `json:"type"`
	Command string `json:"command"`
}

// enterHooks returns the settings with the hooks. Settings that have them already
// stay as they are, to the byte.
func enterHooks(before []byte, command func(string) string) ([]byte, error) {
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

// indentOf is how the user indents: what the first member stands behind.
func indentOf(settings []byte) string {
	_, rest, _ := bytes.Cut(settings, []byte("\n"))
	if i := slices.IndexFunc(rest, func(c byte) bool { return c != ' ' && c != '\t' }); i > 0 && rest[i] == '"' {
		return string(rest[:i])
	}
	return "  "
}
