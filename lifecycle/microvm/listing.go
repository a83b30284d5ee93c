package microvm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Entry is a sandbox as the program lists it. Fields come and go between
// versions; only the name and the status were always there.
type Entry struct {
	Name       string   `json:"name"`
	ID         string   `json:"id"`
	Agent      string   `json:"agent"`
	Status     string   `json:"status"`
	Workspaces []string `json:"workspaces"`
}

// State is the status in our words.
func (e Entry) State() lifecycle.State {
	switch e.Status {
	case "running":
		return lifecycle.Running
	case "stopped":
		return lifecycle.Stopped
	case "creating":
		return lifecycle.Creating
	case "starting", "stopping":
		return lifecycle.Restarting
	case "removing":
		return lifecycle.Removing
	default:
		return lifecycle.Unknown
	}
}

// banner is in what sbx prints behind its answer once a day.
const banner = "Docker Sandboxes Update Available"

// ParseListing reads what "ls --json" prints: an object with the list under
// root, possibly behind lines about the daemon and before a notice of an
// update. An answer without the list is an error, never an empty list.
func ParseListing(output []byte, root string) ([]Entry, error) {
	value, err := Answer(output)
	if err != nil {
		return nil, err
	}
	entries, err := decodeList(value, root)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, e := range entries {
		if e.Name == "" || seen[e.Name] {
			return nil, fmt.Errorf("it lists a sandbox with the name %q, which is empty or taken", e.Name)
		}
		seen[e.Name] = true
	}
	return entries, nil
}

// Answer returns the JSON in what a program prints when it is asked for JSON,
// possibly behind lines about the daemon and before a notice of an update.
func Answer(output []byte) (json.RawMessage, error) {
	start := answer(output)
	if start < 0 {
		return nil, errors.New("there is no JSON in it")
	}
	decoder := json.NewDecoder(bytes.NewReader(output[start:]))
	var value json.RawMessage
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("reading its JSON: %w", err)
	}
	rest := output[start+int(decoder.InputOffset()):]
	if len(bytes.TrimSpace(rest)) > 0 && !bytes.Contains(rest, []byte(banner)) {
		return nil, errors.New("something unknown follows its JSON")
	}
	return value, nil
}

// answer finds the first line that begins as JSON does.
func answer(output []byte) int {
	offset := 0
	for line := range bytes.Lines(output) {
		if line[0] == '{' || line[0] == '[' {
			return offset
		}
		offset += len(line)
	}
	return -1
}

func decodeList(value json.RawMessage, root string) ([]Entry, error) {
	list := value
	if value[0] == '{' {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(value, &object); err != nil {
			return nil, fmt.Errorf("reading its JSON: %w", err)
		}
		var there bool
		if list, there = object[root]; !there {
			return nil, fmt.Errorf("its JSON has no %q", root)
		}
	}
	var entries []Entry
	if err := json.Unmarshal(list, &entries); err != nil {
		return nil, fmt.Errorf("reading its list: %w", err)
	}
	return entries, nil
}

// Root returns the first workspace, without the mark of one that cannot be
// written to; empty if none is listed.
func (e Entry) Root() string {
	if len(e.Workspaces) == 0 {
		return ""
	}
	return strings.TrimSuffix(e.Workspaces[0], ":ro")
}
