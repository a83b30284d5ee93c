package config

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// template is a ralph.toml with all defaults, in comments.
//
//go:embed template.toml
var template string

// Value is a value of the configuration as it is written in a file. Its names in JSON are part
// of the command's interface.
type Value struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// Values returns all values with their origins, in the order of the keys.
func (e Effective) Values() ([]Value, error) {
	byDefault, err := defaultTexts()
	if err != nil {
		return nil, err
	}
	var all []Value
	for _, s := range settings() {
		if s.setNamed == nil {
			v := e.value(s.key, s.form, byDefault[s.key])
			if s.secret && v.Value != "" {
				v.Value = "(hidden)"
			}
			all = append(all, v)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.texts)) {
		if name, _, _ := strings.Cut(strings.TrimPrefix(key, tableAgents+"."), "."); strings.HasPrefix(key, tableAgents+".") && e.Agents[name].Command != nil {
			all = append(all, e.value(key, stringForm, ""))
		}
	}
	return all, nil
}

func (e Effective) value(key string, f form, byDefault string) Value {
	v := Value{Key: key, Value: byDefault, Origin: e.Origins[key].String()}
	switch texts := e.texts[key]; {
	case len(texts) == 0:
	case f == names:
		b, _ := json.Marshal(slices.Compact(texts)) // strings cannot fail
		v.Value = string(b)
	default:
		v.Value = texts[len(texts)-1]
	}
	return v
}

// defaultTexts returns the defaults by key, as the template has them.
var defaultTexts = sync.OnceValues(func() (map[string]string, error) {
	values, err := newDocument("template.toml", FromUser, []byte(uncommented())).interpret()
	texts := map[string]string{}
	for _, s := range settings() {
		if s.form == list || s.form == names {
			texts[s.key] = "[]"
		}
	}
	for _, v := range values {
		texts[v.setting.key] = v.value
	}
	return texts, err
})

// uncommented returns the template with its settings in force.
func uncommented() string {
	var lines []string
	for line := range strings.Lines(template) {
		if setting := strings.TrimPrefix(line, "# "); strings.HasPrefix(setting, "[") || strings.Contains(setting, " = ") {
			line = setting
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

// Init writes a commented ralph.toml into a worktree that has none, or docker-ralph.toml beside one
// that cannot be read, such as that of another program, and returns its path.
func Init(root string) (string, error) {
	path := filepath.Join(root, repositoryFile)
	own := filepath.Join(root, ownFile)
	_, loadErr := load(root, readRepository)
	if _, err := os.Lstat(own); err == nil || loadErr != nil {
		path = own
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		_, err = f.WriteString(template)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return path, fmt.Errorf("writing the configuration: %w", err)
	}
	return path, nil
}

// UserFile returns the path of the user's configuration and its text; the template, if there is
// none.
func UserFile(dir string) (path, text string, err error) {
	path = filepath.Join(dir, userFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, strings.Replace(template, "Settings of docker-ralph for this repository.", "Your settings of docker-ralph.", 1) + userTemplate, nil
	}
	if err != nil {
		return path, "", fmt.Errorf("reading the user configuration: %w", err)
	}
	return path, string(b), nil
}

// userTemplate has the settings that only users can make.
const userTemplate = `
# [notify]
# command = []                  # receives each event as JSON, such as ["notify-send", "docker ralph"]
# webhook = ""                  # URL that each event is sent to
#
# [receipts]
# notes = false                 # add the receipts of tasks to their commits as git notes
`

// WriteUserFile checks the text of the user's configuration and writes it.
func WriteUserFile(dir, text string) error {
	path := filepath.Join(dir, userFile)
	values, err := newDocument(path, FromUser, []byte(text)).interpret()
	if err == nil {
		_, err = merge(Sources{}, nil, values)
	}
	if err != nil {
		return err
	}
	if err = os.MkdirAll(dir, 0o700); err == nil {
		err = os.WriteFile(path, []byte(text), 0o600) // in place: it can be a symbolic link
	}
	if err != nil {
		return fmt.Errorf("writing the user configuration: %w", err)
	}
	return nil
}
