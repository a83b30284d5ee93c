package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/atomicwriter"
)

// Register enters the hooks in the settings file of Claude Code at path, as
// command lines that command returns for their names. What else the file says
// stays. A file that is no JSON object is left as it is.
func Register(path string, command func(name string) string) error {
	// A link leads to where the user keeps the file.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	settings, mode, before, err := read(path)
	if err != nil {
		return fmt.Errorf("registering the hooks of ralph: %w", err)
	}
	after, err := enter(settings, command)
	if err != nil {
		return fmt.Errorf("registering the hooks of ralph in %s: %w", path, err)
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

// Quote returns a word of a shell command line that stands for s.
func Quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@:,", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

type object = map[string]json.RawMessage

func read(path string) (settings object, mode fs.FileMode, before []byte, err error) {
	mode = 0o600
	before, err = os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return object{}, mode, nil, nil
	}
	if err != nil {
		return nil, 0, nil, err
	}
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if len(bytes.TrimSpace(before)) == 0 {
		return object{}, mode, before, nil
	}
	if err := json.Unmarshal(before, &settings); err != nil || settings == nil {
		return nil, 0, nil, fmt.Errorf("%s is no JSON object. Repair it, or move it away", path)
	}
	return settings, mode, before, nil
}

// enter returns the settings with the hooks.
func enter(settings object, command func(string) string) ([]byte, error) {
	hooks := object{}
	if raw := settings["hooks"]; len(raw) > 0 && string(raw) != "null" {
		if err := json.Unmarshal(raw, &hooks); err != nil {
			return nil, errors.New(`"hooks" in it is no JSON object. Repair it, or remove it`)
		}
	}
	type call struct {
		Type    string `json:"type"`
		Command string `json:"command"`
	}
	type matcher struct {
		Matcher string `json:"matcher"`
		Hooks   []call `json:"hooks"`
	}
	for name, event := range Events() {
		raw, err := json.Marshal([]matcher{{Matcher: "*", Hooks: []call{{Type: "command", Command: command(name)}}}})
		if err != nil {
			return nil, err
		}
		hooks[event] = raw
	}
	raw, err := json.Marshal(hooks)
	if err != nil {
		return nil, err
	}
	settings["hooks"] = raw
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err = enc.Encode(settings)
	return out.Bytes(), err
}
