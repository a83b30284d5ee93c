package agentconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/pelletier/go-toml/v2"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// secretWord is a part of the names of secrets.
const secretWord = `(api[-_]?key|access[-_]?key|private[-_]?key|token|secret|passw(or)?d|passphrase|authorization|credential|bearer|cookie)`

var (
	// secretName matches the names of members whose strings are secrets.
	secretName = lazyregexp.New(`(?i)` + secretWord)
	// naming is the end of the names of members that only refer to a secret.
	naming = lazyregexp.New(`(?i)([-_]?env([-_]?(var|key|name))?|file|path)$`)
	// reference is a reference to a variable.
	reference = lazyregexp.New(`^(Bearer )?(\$\{?\w+(:-)?\}?|\{env:\w+\})$`)
	// wellKnown matches the formats of keys, and URLs with a password.
	wellKnown = lazyregexp.New(`sk-(ant-|proj-|or-)?[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|` +
		`(AKIA|ASIA)[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}|xox[abprs]-[0-9A-Za-z-]{10,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|` +
		`eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.|-----BEGIN [A-Z ]*PRIVATE KEY|://[^/@\s:"']*:[^/@\s"']+@`)
)

// marks returns substrings of all matches of wellKnown. Searching for them first is a
// hundred times faster.
func marks() []string {
	return []string{"sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "AKIA", "ASIA", "AIza", "xox", "hf_", "npm_", "eyJ", "PRIVATE KEY", "://"}
}

func looksLikeKey(content []byte) bool {
	for line := range bytes.Lines(content) {
		if slices.ContainsFunc(marks(), func(mark string) bool { return bytes.Contains(line, []byte(mark)) }) && wellKnown().Match(line) {
			return true
		}
	}
	return false
}

var (
	// secretValue is a value by the name of a secret in a script or a text.
	secretValue = lazyregexp.New(`(?i)([\w-]*` + secretWord + `[\w-]*)["'\x60]?\s*[:=]\s*["'\x60]?((bearer|basic)\s+)?([A-Za-z0-9][A-Za-z0-9+/_=!@#%^&*-]{9,})(["'\x60\s;),]|$)`)
	// secretFlag is a value after a flag with the name of a secret, or the password of curl.
	secretFlag = lazyregexp.New(`(?i)(--[\w-]*` + secretWord + `[\w-]*\s+|(\s-u|--user)[\s=]+["']?[^\s:"']+:)["']?([A-Za-z0-9][A-Za-z0-9+/_=!@#%^&*-]{7,})`)
	// identifier is a name in a program, which can have digits.
	identifier = lazyregexp.New(`^[A-Za-z]+[0-9]?([_-][A-Za-z]*[0-9]{0,2})*$`)
)

// assignsSecret reports whether a script or a text has the value of a secret: letters and digits that are
// neither a word nor the name of a variable.
func assignsSecret(content []byte) bool {
	words := []string{"key", "token", "secret", "passw", "passphrase", "authorization", "credential", "bearer", "cookie"}
	literal := func(value []byte) bool {
		mixed := bytes.ContainsAny(value, "0123456789") && bytes.ContainsFunc(value, unicode.IsLetter)
		return mixed && !identifier().Match(value)
	}
	for line := range bytes.Lines(content) {
		if bytes.Contains(line, []byte("-u")) || bytes.Contains(line, []byte("--")) {
			for _, found := range secretFlag().FindAllSubmatch(line, -1) {
				if literal(found[len(found)-1]) && !naming().Match(bytes.TrimSpace(found[1])) {
					return true
				}
			}
		}
		lower := bytes.ToLower(line) // searching for words first is much faster
		if !slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(lower, []byte(word)) }) {
			continue
		}
		for _, found := range secretValue().FindAllSubmatch(line, -1) {
			name, value := found[1], found[6]
			if literal(value) && !naming().Match(name) {
				return true
			}
		}
	}
	return false
}

// clean removes the secrets of a file, and returns a note about them. An error says why the
// file cannot be copied.
func clean(agent, name string, content []byte) (cleaned []byte, note string, err error) {
	s := scrubber{unwanted: credential.Names(agent)}
	switch strings.ToLower(path.Ext(name)) {
	case ".json", ".jsonc":
		cleaned, err = s.json(content)
	case ".toml":
		cleaned, err = s.toml(content)
	default:
		if looksLikeKey(content) || assignsSecret(content) {
			return nil, "", errors.New("content looks like a key")
		}
		return content, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("checking for keys: %w", err)
	}
	switch {
	case looksLikeKey(cleaned):
		return nil, "", errors.New("content looks like a key")
	case len(s.removed) > 0:
		slices.Sort(s.removed)
		return cleaned, "is copied without " + strings.Join(slices.Compact(s.removed), ", "), nil
	case looksLikeKey(content):
		return cleaned, "is copied without its comments", nil
	default:
		return content, "", nil
	}
}

// scrubber removes secrets from a document.
type scrubber struct {
	unwanted []string // variables that docker-ralph sets itself
	removed  []string // names
}

func (s *scrubber) json(content []byte) ([]byte, error) {
	if len(bytes.TrimSpace(content)) == 0 {
		return content, nil
	}
	dec := json.NewDecoder(bytes.NewReader(content))
	dec.UseNumber()
	var document any
	if err := dec.Decode(&document); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, errors.New("unexpected data after the document")
	}
	return marshalJSON(s.scrub("", document))
}

func marshalJSON(document any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(document)
	return out.Bytes(), err
}

func (s *scrubber) toml(content []byte) ([]byte, error) {
	document := map[string]any{}
	if err := toml.Unmarshal(content, &document); err != nil {
		return nil, err
	}
	return toml.Marshal(s.scrub("", document))
}

// scrub removes the secrets of a value. name is the name of its member.
func (s *scrubber) scrub(name string, value any) any {
	switch value := value.(type) {
	case string:
		return s.argument(name, "", value)
	case map[string]any:
		for member, inner := range value {
			if carriesSecret(member) {
				delete(value, member)
				s.removed = append(s.removed, "a name with a secret in it")
				continue
			}
			if s.secret(name, member, inner) {
				delete(value, member)
				s.removed = append(s.removed, member)
				continue
			}
			value[member] = s.scrub(member, inner)
		}
	case []any:
		for i, inner := range value {
			text, ok := inner.(string)
			if !ok {
				value[i] = s.scrub(name, inner)
				continue
			}
			before, _ := element(value, i-1).(string)
			value[i] = s.argument(name, before, text)
		}
	}
	return value
}

func element(list []any, i int) any {
	if i < 0 {
		return nil
	}
	return list[i]
}

// secret reports whether a member of an object is a secret.
func (s *scrubber) secret(object, name string, value any) bool {
	if object == "env" && (slices.Contains(s.unwanted, name) || isProxy(name)) {
		return true // it would override what docker-ralph sets
	}
	named := secretName().MatchString(name) && !naming().MatchString(name) || isHeaders(object) && secretHeader(name)
	switch value := value.(type) {
	case string:
		if value == "" || reference().MatchString(value) {
			return false
		}
		return named || wellKnown().MatchString(value)
	case map[string]any, []any:
		return named
	default:
		return false // a number such as max_tokens
	}
}

// carriesSecret reports whether the name of a member contains a secret: it can be a URL or
// the beginning of a command.
func carriesSecret(name string) bool {
	_, found := cutNamedSecret(name, false)
	return found || wellKnown().MatchString(name) || namesToken(name)
}

// isHeaders reports whether an object has headers of requests. Those of codex in
// env_http_headers are names of variables.
func isHeaders(object string) bool {
	return headerFlag().MatchString(object) && !strings.HasPrefix(object, "env_")
}

func isProxy(name string) bool {
	switch strings.ToUpper(name) {
	case "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY":
		return true
	}
	return false
}
