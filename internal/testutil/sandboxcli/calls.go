package sandboxcli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Call is a call of one of the fakes.
type Call struct {
	CLI  string   `json:"cli"` // "sbx" or "docker-sandbox"
	Args []string `json:"args"`
}

func callsPath(dir string) string { return filepath.Join(dir, "calls.jsonl") }

// note records a call for [Calls].
func (c *call) note(args []string) error {
	line, err := json.Marshal(Call{string(c.cli), args})
	if err != nil {
		return fmt.Errorf("noting the call: %w", err)
	}
	f, err := os.OpenFile(callsPath(c.dir), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("noting the call: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("noting the call: %w", err)
	}
	return nil
}

// Calls returns the calls of both fakes since the state directory was created, in
// order. Their arguments are visible to other users of the machine.
func Calls(dir string) ([]Call, error) {
	content, err := os.ReadFile(callsPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the fake's calls: %w", err)
	}
	var calls []Call
	for line := range bytes.Lines(content) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		var c Call
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("reading the fake's calls: %w", err)
		}
		calls = append(calls, c)
	}
	return calls, nil
}
