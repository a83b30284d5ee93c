package agentconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// sandboxHome is the home directory of the agent in every sandbox.
const sandboxHome = "/home/agent"

// adaptHooks makes the hooks of copied settings work in a sandbox: paths below the user's
// directories become those of the copies. Hooks with files that no sandbox has are removed,
// because agents take their failure for a denial of every tool call.
func (f *Files) adaptHooks(home string, dirs map[string]string) error {
	known := map[string]bool{}
	for _, one := range f.files {
		for name := one.name; name != "."; name = path.Dir(name) {
			known[name] = true
		}
	}
	for i := range f.files {
		h := &hookAdapter{home: home, dirs: dirs, known: known}
		content, err := h.adapt(f.files[i].name, f.files[i].content)
		if err != nil {
			return err
		}
		f.files[i].content = content
		if len(h.missing) > 0 {
			f.Notes = append(f.Notes, fmt.Sprintf("~/%s is copied without hooks that need files of the host: %s",
				f.files[i].name, strings.Join(slices.Compact(slices.Sorted(slices.Values(h.missing))), ", ")))
		}
	}
	return nil
}

// hookAdapter adapts the hooks of one file.
type hookAdapter struct {
	home    string
	dirs    map[string]string // directories of the host, and where their copies are below the home directory
	known   map[string]bool   // the copied files and their directories, below the home directory
	missing []string          // paths, as they are written
	changed bool
}

// hookSections are the members of a document whose commands the agent runs by itself.
func hookSections() []string { return []string{"hooks", "statusLine", "notify"} }

func (h *hookAdapter) adapt(name string, content []byte) ([]byte, error) {
	document := map[string]any{}
	isTOML := path.Ext(name) == ".toml"
	switch {
	case isTOML:
		if toml.Unmarshal(content, &document) != nil {
			return content, nil
		}
	case path.Ext(name) == ".json":
		dec := json.NewDecoder(bytes.NewReader(content))
		dec.UseNumber()
		if dec.Decode(&document) != nil {
			return content, nil
		}
	default:
		return content, nil
	}
	for _, section := range hookSections() {
		if value, ok := document[section]; ok {
			if document[section], ok = h.section(value); !ok {
				delete(document, section)
			}
		}
	}
	switch {
	case !h.changed && len(h.missing) == 0:
		return content, nil
	case isTOML:
		return toml.Marshal(document)
	default:
		return marshalJSON(document)
	}
}

// section adapts all hooks in a value, and returns false if it is one that does not work.
func (h *hookAdapter) section(value any) (_ any, works bool) {
	switch value := value.(type) {
	case map[string]any:
		if isHook(value) {
			return h.hook(value)
		}
		for name, inner := range value {
			kept, ok := h.section(inner)
			if value[name] = kept; !ok {
				delete(value, name)
			}
		}
	case []any:
		if isCommand(value) {
			return h.hook(value)
		}
		kept := []any{}
		for _, inner := range value {
			if section, ok := h.section(inner); ok {
				kept = append(kept, section)
			}
		}
		return kept, true
	}
	return value, true
}

// isHook reports whether an object is a hook: its command is a string or a list of strings.
func isHook(value map[string]any) bool {
	for _, name := range []string{"command", "bash"} {
		switch command := value[name].(type) {
		case string:
			return true
		case []any:
			return isCommand(command)
		}
	}
	return false
}

func isCommand(list []any) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(v any) bool { _, ok := v.(string); return !ok })
}

// hook adapts all strings of a hook.
func (h *hookAdapter) hook(value any) (_ any, works bool) {
	before := len(h.missing)
	var adapt func(v any, inList bool) any
	adapt = func(v any, inList bool) any {
		switch v := v.(type) {
		case string:
			adapted := h.command(v, inList)
			h.changed = h.changed || adapted != v
			return adapted
		case []any:
			for i := range v {
				v[i] = adapt(v[i], true)
			}
		case map[string]any:
			for name := range v {
				v[name] = adapt(v[name], false)
			}
		}
		return v
	}
	value = adapt(value, false)
	return value, len(h.missing) == before
}

// command adapts the paths in a command line, or in one argument.
func (h *hookAdapter) command(line string, argument bool) string {
	var out strings.Builder
	tested := map[string]bool{} // the command works without these
	for rest := line; rest != ""; {
		done := line[:len(line)-len(rest)]
		token := h.pathAt(done, rest, argument)
		if token == "" {
			out.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		rest = rest[len(token):]
		adapted, ok := h.path(token)
		before := strings.TrimRight(done, `"' `)
		switch {
		case slices.ContainsFunc([]string{" -e", " -f", " -r", " -s", " -x", " -d"}, func(test string) bool { return strings.HasSuffix(before, test) }):
			tested[token] = true
		case !ok && !tested[token] && !strings.HasSuffix(before, ">"): // a file that the command writes
			h.missing = append(h.missing, token)
		}
		out.WriteString(adapted)
	}
	return out.String()
}

// prefixes are what an absolute path begins with: the spellings of the user's directories,
// longer ones first.
func (h *hookAdapter) prefixes() []string {
	all := []string{"/", "~", "$HOME", "${HOME}"}
	for dir := range h.dirs {
		all = append(all, dir)
	}
	if h.home != "" {
		all = append(all, h.home)
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

// pathAt returns the absolute path with which rest begins; empty if it does not begin with
// one. An argument or a quoted string is one path if there is such a file.
func (h *hookAdapter) pathAt(done, rest string, argument bool) string {
	last := byte(' ')
	if done != "" {
		last = done[len(done)-1]
	}
	if !strings.ContainsRune("\"'`=:(,;|&<> \t\n", rune(last)) {
		return ""
	}
	for _, prefix := range h.prefixes() {
		after, ok := strings.CutPrefix(rest, prefix)
		if !ok || prefix != "/" && after != "" && !strings.ContainsRune("/"+pathEnds, rune(after[0])) {
			continue
		}
		whole := rest
		if quoted, _, ok := strings.Cut(rest, string(last)); ok && strings.ContainsRune("\"'", rune(last)) {
			whole = quoted
		} else if done != "" || !argument {
			whole = ""
		}
		if whole != "" {
			if _, err := os.Stat(h.onHost(whole)); err == nil {
				return whole
			}
		}
		if end := strings.IndexAny(after, pathEnds); end >= 0 {
			return rest[:len(prefix)+end]
		}
		return rest
	}
	return ""
}

// pathEnds are the characters that end a path in a command line.
const pathEnds = "\"'`;|&<>() \t\n"

// onHost replaces a spelling of the home directory.
func (h *hookAdapter) onHost(written string) string {
	for _, home := range []string{"~", "$HOME", "${HOME}"} {
		if rest, ok := strings.CutPrefix(written, home); ok {
			return h.home + rest
		}
	}
	return written
}

// path returns the path of a file in a sandbox, and false if it is not there.
func (h *hookAdapter) path(written string) (adapted string, found bool) {
	host := h.onHost(written)
	short := host != written
	for dir, copied := range h.dirs {
		if rest, ok := below(host, dir); ok {
			name := path.Join(copied, rest)
			adapted = path.Join(sandboxHome, name)
			if short && path.Join(h.home, name) == path.Clean(host) {
				adapted = written
			}
			return adapted, h.known[fixedPart(name)]
		}
	}
	if rest, ok := below(host, h.home); ok {
		if short {
			return written, rest == ""
		}
		return path.Join(sandboxHome, rest), rest == ""
	}
	return written, h.inEverySandbox(written)
}

// inEverySandbox reports whether an absolute path is none of the host alone: it is of the
// system, or no file at all.
func (h *hookAdapter) inEverySandbox(name string) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(path.Clean(name), "/"), "/")
	if slices.Contains([]string{"", "bin", "sbin", "lib", "lib64", "usr", "etc", "dev", "proc", "tmp"}, top) {
		return true
	}
	_, err := os.Stat(filepath.FromSlash(name))
	return err != nil
}

// fixedPart is a path up to its first component with a variable or wildcard.
func fixedPart(name string) string {
	if at := strings.IndexAny(name, "*?[$"); at >= 0 {
		return path.Dir(name[:at] + "x")
	}
	return name
}

// below returns the rest of a path after a directory.
func below(name, dir string) (rest string, ok bool) {
	if dir == "" {
		return "", false
	}
	rest, ok = strings.CutPrefix(path.Clean(name), path.Clean(dir))
	return strings.TrimPrefix(rest, "/"), ok && (rest == "" || rest[0] == '/')
}
