package microvm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

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

// Known tells whether the driver of that name has made a sandbox of this name
// that it has not removed, by what is remembered in stateDir.
func Known(stateDir, driver, name string) bool {
	rec, _, err := recordsOf(stateDir, driver).read(name)
	return rec.Created || err != nil
}

// MadeFor reports whether the driver of that name has made the sandbox of the spec's
// name for its scope and work tree, by what is remembered in stateDir.
func MadeFor(stateDir, driver string, spec lifecycle.Spec) bool {
	rec, _, _ := recordsOf(stateDir, driver).read(spec.Name)
	return rec.Created && rec.Root == spec.Root && rec.Scope == spec.Scope
}

// Image returns the image that the sandbox of this name was made from, as far
// as it is remembered; otherwise "".
func Image(stateDir, driver, name string) string {
	rec, _, _ := recordsOf(stateDir, driver).read(name)
	return rec.Image
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
	content, err := json.MarshalIndent(rec, "", "  ")
	if err == nil {
		err = os.MkdirAll(string(r), 0o700)
	}
	if err == nil {
		err = atomicwriter.WriteFile(r.path(rec.Name), append(content, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting what is known of the sandbox %s: %w", rec.Name, err)
	}
	return nil
}

func (r records) remove(name string) error {
	if err := os.Remove(r.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting the sandbox %s: %w", name, err)
	}
	return nil
}

// names lists the sandboxes that there are records of.
func (r records) names() ([]string, error) {
	files, err := os.ReadDir(string(r))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing what is known of sandboxes: %w", err)
	}
	var names []string
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".json"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Cloned tells whether the sandbox of this name works on a clone of its own, as
// far as it is remembered.
func Cloned(stateDir, driver, name string) bool {
	rec, _, _ := recordsOf(stateDir, driver).read(name)
	return rec.Private
}
