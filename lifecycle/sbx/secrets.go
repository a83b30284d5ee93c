package sbx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// hasSecretJSON is the first version whose "secret ls" can print JSON.
func hasSecretJSON() microvm.Version { return microvm.Version{Minor: 42} }

// secretsKept is how long an answer counts that there are secrets: asking takes
// as long as a whole dispatch may. One that there are none is not kept, so that
// a secret counts as soon as it is stored.
const secretsKept = time.Hour

type secretsNote struct {
	Asked    time.Time       `json:"asked"`
	Services map[string]bool `json:"services"`
}

// Secrets returns the services whose keys sbx has for all sandboxes, and so adds
// to their requests.
func (d *Dialect) Secrets(ctx context.Context) (map[string]bool, error) {
	file := filepath.Join(d.StateDir, "microvms", "sbx-secrets.json")
	var note secretsNote
	if content, err := os.ReadFile(file); err == nil && json.Unmarshal(content, &note) == nil {
		if age := time.Since(note.Asked); len(note.Services) > 0 && age >= 0 && age < secretsKept {
			return note.Services, nil
		}
	}
	services, err := d.askSecrets(ctx)
	if errors.Is(err, lifecycle.ErrNotInstalled) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("asking sbx for which services it has keys: %w", err)
	}
	content, err := json.Marshal(secretsNote{time.Now().UTC(), services})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = atomicwriter.WriteFile(file, content, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("noting for which services sbx has keys: %w", err)
	}
	return services, nil
}

func (d *Dialect) askSecrets(ctx context.Context) (map[string]bool, error) {
	client, err := d.Client(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{"secret", "ls"}
	if version, err := d.version(ctx, client); err == nil && !version.Less(hasSecretJSON()) {
		args = append(args, "--json")
	}
	out, err := d.ask(ctx, client, args...)
	if err != nil {
		return nil, err
	}
	return credential.Stored(out, "")
}
