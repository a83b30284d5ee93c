package microvm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/scopes"
)

// record is the record of a sandbox, whose program has no labels: what it was
// created for, and its progress.
type record struct {
	Name      string              `json:"name"`
	ID        string              `json:"id,omitempty"`
	Created   bool                `json:"created"` // false: creating it was begun
	Scope     gitrepo.Scope       `json:"scope"`
	Root      string              `json:"root"`
	MainRoot  string              `json:"main_root,omitempty"`
	Agent     string              `json:"agent"`
	Image     string              `json:"image"`
	Config    string              `json:"config,omitempty"`
	Settings  string              `json:"settings,omitempty"`
	Resources lifecycle.Resources `json:"resources,omitzero"`
	Ephemeral bool                `json:"ephemeral,omitempty"`
	Private   bool                `json:"private,omitempty"` // has a clone; without Clone, sbx made it for an earlier version
	Clone     bool                `json:"clone,omitempty"`
	// Prepared is the SHA-256 of the installed ralph.
	Prepared string `json:"prepared,omitempty"`
	// Egress is the mode of the Policy that it was created with.
	Egress egress.Mode     `json:"egress,omitempty"`
	Policy json.RawMessage `json:"policy,omitempty"`
	// Told is the network configuration that the program has received; Warned is the
	// warning that the user has seen about its limits.
	Applied []string `json:"told,omitempty"`
	Warned  string   `json:"warned,omitempty"`
}

func newRecord(spec lifecycle.Spec) (record, error) {
	rec := record{
		Name: spec.Name, Scope: spec.Scope, Root: spec.Root, MainRoot: spec.MainRoot, Agent: spec.Agent, Image: spec.Image,
		Config: spec.Config, Settings: spec.Settings(), Resources: spec.Resources, Ephemeral: spec.Ephemeral, Private: spec.Private, Clone: spec.Clone,
		Egress: spec.Egress.Policy.Mode,
	}
	var err error
	if rec.Egress != "" {
		if rec.Policy, err = json.Marshal(spec.Egress.Policy); err != nil {
			err = fmt.Errorf("saving the network policy of sandbox %s: %w", spec.Name, err)
		}
	}
	return rec, err
}

// sandbox converts the record.
func (r record) sandbox(state lifecycle.State) lifecycle.Sandbox {
	return lifecycle.Sandbox{
		Name: r.Name, ID: r.ID, State: state, Scope: r.Scope, Root: r.Root, MainRoot: r.MainRoot, Agent: r.Agent,
		Image: r.Image, Settings: r.Settings, Resources: r.Resources, Ephemeral: r.Ephemeral, Private: r.Private, Clone: r.Clone,
		Egress: r.Egress, Config: r.Config, ConfigAt: r.Config,
	}
}

// records are those of a driver.
type records struct {
	scopes.Section[record]
	stateDir string
}

func recordsOf(stateDir, driver string) records {
	return records{scopes.Section[record](driver), stateDir}
}

// Remembered returns the recorded sandbox of this name, and whether there is one. An
// unreadable record counts: its sandbox may exist.
func Remembered(stateDir, driver, name string) (sb lifecycle.Sandbox, known bool) {
	rec, _, err := recordsOf(stateDir, driver).read(name)
	return rec.sandbox(lifecycle.Unknown), rec.Created || err != nil
}

// Images returns the images of all recorded sandboxes of a driver, by the sandbox's
// name. An unreadable record is an error.
func Images(stateDir, driver string) (map[string]string, error) {
	names, err := scopes.Names(stateDir)
	if err != nil {
		return nil, err
	}
	images := map[string]string{}
	for _, name := range names {
		rec, found, err := recordsOf(stateDir, driver).read(name)
		if err != nil {
			return nil, err
		}
		if found {
			images[name] = rec.Image
		}
	}
	return images, nil
}

// read reads the record of a sandbox. An unreadable one is an error: the sandbox may
// exist.
func (r records) read(name string) (rec record, found bool, err error) {
	return r.Read(r.stateDir, name)
}

func (r records) write(rec record) error {
	if err := r.Write(r.stateDir, rec.Name, rec); err != nil {
		return fmt.Errorf("writing the record of sandbox %s: %w", rec.Name, err)
	}
	return nil
}

func (r records) remove(name string) error {
	if err := r.Remove(r.stateDir, name); err != nil {
		return fmt.Errorf("removing the record of sandbox %s: %w", name, err)
	}
	return nil
}

// lock waits for a lock between processes of docker-ralph.
func (d *Driver) lock(ctx context.Context, name string) (unlock func(), err error) {
	l := flock.New(filepath.Join(d.StateDir, "locks", name))
	if err = os.MkdirAll(filepath.Dir(l.Path()), 0o700); err == nil {
		_, err = l.TryLockContext(ctx, 50*time.Millisecond)
	}
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", l.Path(), err)
	}
	return func() { _ = l.Close() }, nil
}
