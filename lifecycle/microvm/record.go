package microvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// record is what we remember of a sandbox, because the programs have no labels:
// what it was made for, and how far we came with it.
type record struct {
	Name       string        `json:"name"`
	ID         string        `json:"id,omitempty"`
	Created    bool          `json:"created"` // false: creating it was begun
	Scope      gitrepo.Scope `json:"scope"`
	Root       string        `json:"root"`
	Agent      string        `json:"agent"`
	Image      string        `json:"image"`
	Config     string        `json:"config,omitempty"`
	ConfigHash string        `json:"config_hash"`
	Ephemeral  bool          `json:"ephemeral,omitempty"`
	Private    bool          `json:"private,omitempty"`
	// Prepared is the SHA-256 of the ralph that was put in.
	Prepared string `json:"prepared,omitempty"`
	// Egress is the mode of the network policy that it was made for, and Policy
	// that policy.
	Egress egress.Mode     `json:"egress,omitempty"`
	Policy json.RawMessage `json:"policy,omitempty"`
	// Told is what the program was told of its network, and Warned what the user
	// was told of where that falls short.
	Told   []string `json:"told,omitempty"`
	Warned string   `json:"warned,omitempty"`
}

func newRecord(spec lifecycle.Spec) (record, error) {
	rec := record{
		Name: spec.Name, Scope: spec.Scope, Root: spec.Root, Agent: spec.Agent, Image: spec.Image,
		Config: spec.Config, ConfigHash: spec.Hash(), Ephemeral: spec.Ephemeral, Private: spec.Private,
		Egress: spec.Egress.Policy.Mode,
	}
	var err error
	if rec.Egress != "" {
		if rec.Policy, err = json.Marshal(spec.Egress.Policy); err != nil {
			err = fmt.Errorf("noting the network policy of the sandbox %s: %w", spec.Name, err)
		}
	}
	return rec, err
}

// sandbox is the record as a driver returns it.
func (r record) sandbox(state lifecycle.State) lifecycle.Sandbox {
	return lifecycle.Sandbox{
		Name: r.Name, ID: r.ID, State: state, Scope: r.Scope, Root: r.Root, Agent: r.Agent,
		Image: r.Image, ConfigHash: r.ConfigHash, Ephemeral: r.Ephemeral, Private: r.Private,
		Egress: r.Egress, Config: r.Config, ConfigAt: r.Config,
	}
}

// records is the folder with one file for each sandbox of a driver.
type records string

// Remembered returns the sandbox of this name as the driver of that name has made it
// and not removed it, by what is noted in stateDir. A note that cannot be read is of
// a sandbox that may well be there.
func Remembered(stateDir, driver, name string) (sb lifecycle.Sandbox, known bool) {
	rec, _, err := recordsOf(stateDir, driver).read(name)
	return rec.sandbox(lifecycle.Unknown), rec.Created || err != nil
}

// Images returns the image of every sandbox that the driver of that name has
// made and not removed, by the sandbox's name, as far as it is noted in stateDir.
// A note that cannot be read is an error.
func Images(stateDir, driver string) (map[string]string, error) {
	all := recordsOf(stateDir, driver)
	files, err := os.ReadDir(string(all))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing what is known of sandboxes: %w", err)
	}
	images := map[string]string{}
	for _, f := range files {
		name, is := strings.CutSuffix(f.Name(), ".json")
		if !is {
			continue
		}
		rec, found, err := all.read(name)
		if err != nil {
			return nil, err
		}
		if found {
			images[name] = rec.Image
		}
	}
	return images, nil
}

func recordsOf(stateDir, driver string) records {
	return records(filepath.Join(stateDir, "microvms", driver))
}

func (r records) path(name string) string { return filepath.Join(string(r), name+".json") }

// read returns what is remembered of a sandbox. A record that cannot be read is
// an error: a sandbox may well be there.
func (r records) read(name string) (rec record, found bool, err error) {
	content, err := os.ReadFile(r.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &rec)
	}
	if err == nil && rec.Name != name {
		err = fmt.Errorf("it is about %q", rec.Name)
	}
	if err != nil {
		return record{}, false, fmt.Errorf("reading what is known of the sandbox %s in %s: %w; repair or remove the file", name, r.path(name), err)
	}
	return rec, true, nil
}

func (r records) write(rec record) error {
	if err := writeJSON(r.path(rec.Name), rec); err != nil {
		return fmt.Errorf("noting what is known of the sandbox %s: %w", rec.Name, err)
	}
	return nil
}

// writeJSON makes a file at once, with its folder.
func writeJSON(path string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = atomicwriter.WriteFile(path, append(content, '\n'), 0o600)
	}
	return err
}

func (r records) remove(name string) error {
	if err := os.Remove(r.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting the sandbox %s: %w", name, err)
	}
	return nil
}

// lock waits for a lock that processes of ours have on what they share.
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
