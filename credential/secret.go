package credential

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Stored reads the output of "sbx secret ls", as a table or with --json, and
// returns the names of the services whose key sbx has for a sandbox: those of
// all sandboxes, and those of this one. With sandbox "" it is the former
// alone. Keys of registries are not among them. Lines around the list, such as
// notices, are passed over; without any list it is an error.
func Stored(output []byte, sandbox string) (map[string]bool, error) {
	secrets, ok := secretsOfJSON(output)
	if !ok {
		secrets, ok = secretsOfTable(string(output))
	}
	if !ok {
		return nil, errors.New("\"sbx secret ls\" printed no list of secrets: run it yourself to see why")
	}
	services := map[string]bool{}
	for _, s := range secrets {
		if s.name() != "" && s.isService() && s.reaches(sandbox) {
			services[s.name()] = true
		}
	}
	return services, nil
}

// storedSecret is one entry of the list. What sbx shows of the secret itself
// is not read: it can be a part of it.
type storedSecret struct {
	Scope   string `json:"scope"`
	Type    string `json:"type"`
	Name    string `json:"name"`
	Service string `json:"service"`
}

func (s storedSecret) name() string {
	for _, name := range []string{s.Name, s.Service} {
		if oneWord(name) {
			return name
		}
	}
	return ""
}

func (s storedSecret) isService() bool {
	return s.Type == "" || strings.EqualFold(s.Type, "service")
}

// reaches reports whether a sandbox gets the secret. "(global)" is how older
// versions write it.
func (s storedSecret) reaches(sandbox string) bool {
	return s.Scope == "" || strings.Trim(s.Scope, "()") == "global" || s.Scope == sandbox
}

// secretsOfJSON takes the first list that starts a line.
func secretsOfJSON(output []byte) ([]storedSecret, bool) {
	for rest := output; len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		if start := bytes.TrimLeft(line, "\ufeff \t\r"); len(start) > 0 && (start[0] == '{' || start[0] == '[') {
			if secrets, ok := decodeSecrets(rest[bytes.IndexByte(rest, start[0]):]); ok {
				return secrets, true
			}
		}
		rest = after
	}
	return nil, false
}

func decodeSecrets(text []byte) ([]storedSecret, bool) {
	var raw json.RawMessage
	if json.NewDecoder(bytes.NewReader(text)).Decode(&raw) != nil {
		return nil, false
	}
	if raw[0] == '{' {
		var listing map[string]json.RawMessage
		if json.Unmarshal(raw, &listing) != nil || listing["secrets"] == nil {
			return nil, false
		}
		raw = listing["secrets"]
	}
	var entries []json.RawMessage
	if json.Unmarshal(raw, &entries) != nil {
		return nil, false
	}
	var secrets []storedSecret
	for _, entry := range entries {
		var s storedSecret
		if json.Unmarshal(entry, &s) == nil { // one strange entry does not hide the others
			secrets = append(secrets, s)
		}
	}
	return secrets, true
}

// secretsOfTable reads the table with the columns SCOPE TYPE NAME SECRET; the
// one of custom secrets, with TARGETS and ENV, has no services.
func secretsOfTable(output string) (secrets []storedSecret, ok bool) {
	var header []string
	for line := range strings.Lines(termsafe.Strip(output)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			header = nil
		case words[0] == "SCOPE":
			header, ok = words, true
		case header != nil:
			secrets = append(secrets, secretOfRow(header, words))
		case strings.EqualFold(strings.Join(words[:min(2, len(words))], " "), "no secrets"):
			ok = true
		}
	}
	return secrets, ok
}

// secretOfRow goes by words: blanks occur only in the last column.
func secretOfRow(header, cells []string) storedSecret {
	cell := func(column string) string {
		if i := slices.Index(header, column); i >= 0 && i < len(cells) {
			return cells[i]
		}
		return ""
	}
	return storedSecret{Scope: cell("SCOPE"), Type: cell("TYPE"), Name: cell("NAME")}
}
