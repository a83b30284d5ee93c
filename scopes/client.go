package scopes

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/hint"
)

func clientPath(stateDir string) string { return filepath.Join(stateDir, "client") }

// ClientID returns the ID of this client, which is the plugin in one Docker configuration directory. It stands in
// the labels of what the client creates on an engine. It is empty if the client has created nothing yet.
func ClientID(stateDir string) (string, error) {
	content, err := os.ReadFile(clientPath(stateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the ID of this client: %w", err)
	}
	id := strings.TrimSpace(string(content))
	if id == "" {
		// A new one would make all sandboxes those of another client.
		return "", hint.Wrap(errors.New("reading the ID of this client: the file is empty"),
			"restore %s: the label io.github.docker-ralph.client of your sandboxes has the ID", clientPath(stateDir))
	}
	return id, nil
}

// EnsureClientID returns the ID of this client, and creates it once.
func EnsureClientID(stateDir string) (string, error) {
	if id, err := ClientID(stateDir); err != nil || id != "" {
		return id, err
	}
	unlock, err := lockFile(stateDir, "client")
	if err != nil {
		return "", err
	}
	defer unlock()

	if id, err := ClientID(stateDir); err != nil || id != "" { // another process has created it
		return id, err
	}
	id := rand.Text()
	if err := atomicwriter.WriteFile(clientPath(stateDir), []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("writing the ID of this client: %w", err)
	}
	return id, nil
}
