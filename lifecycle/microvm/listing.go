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
	Status     string   `json:"status"`
	Workspaces []string `json:"workspaces"`
}

// State converts the status.
func (e Entry) State() lifecycle.State {
	switch e.Status {
	case "running":
		return lifecycle.Running
	case "stopped":
		return lifecycle.Stopped
	case "creating":
		return lifecycle.Creating
	case "removing":
		return lifecycle.Removing
	default:
		return lifecycle.Unknown
	}
}

// banner is in the notice that sbx appends to its output once a day.
const banner = "Docker Sandboxes Update Available"

// ParseListing parses the output of "ls --json": an object with the list under root. A missing
// list is an error.
func ParseListing(output []byte, root string) ([]Entry, error) {
	var object map[string]json.RawMessage
	if err := decode(output, &object); err != nil {
		return nil, err
	}
	list, there := object[root]
	if !there {
		return nil, fmt.Errorf("no %q in the JSON", root)
	}
	var entries []Entry
	if err := json.Unmarshal(list, &entries); err != nil {
		return nil, fmt.Errorf("parsing the list: %w", err)
	}
	seen := map[string]bool{}
	for _, e := range entries {
		if e.Name == "" || seen[e.Name] {
			return nil, fmt.Errorf("empty or duplicate name %q in the list", e.Name)
		}
		seen[e.Name] = true
	}
	return entries, nil
}

// decode parses the JSON object in the output of a program, possibly between lines about the
// daemon and a notice of an update.
func decode(output []byte, object any) error {
	text := output
	for len(text) == 0 || text[0] != '{' {
		if len(text) == 0 {
			return fmt.Errorf("no JSON in %.200q", output)
		}
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(object); err != nil {
		return fmt.Errorf("parsing the JSON: %w", err)
	}
	rest := text[decoder.InputOffset():]
	if len(bytes.TrimSpace(rest)) > 0 && !bytes.Contains(rest, []byte(banner)) {
		return errors.New("unexpected data after the JSON")
	}
	return nil
}

// Root returns the first workspace, without the mark of a read-only one; empty if none is
// listed.
func (e Entry) Root() string {
	if len(e.Workspaces) == 0 {
		return ""
	}
	return strings.TrimSuffix(e.Workspaces[0], ":ro")
}
