// Package sbx is the driver that makes sandboxes of microVMs with Docker's sbx,
// a program that needs no Docker Engine. Versions from 0.38 on are served.
package sbx

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/distribution/reference"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// Name is the driver's name.
const Name = "sbx"

// Dialect speaks to sbx.
type Dialect struct {
	// StateDir is the plugin's folder below Docker's configuration folder.
	StateDir string
	// Images gives images of a Docker Engine to sbx, which has a store of its
	// own. It is nil where there is no engine: sbx fetches images itself then.
	Images *Images
	// KVM is the device that microVMs need on Linux.
	KVM string
}

var _ microvm.Dialect = (*Dialect)(nil)

// New returns the driver.
func New(d *Dialect, driver microvm.Driver) *microvm.Driver {
	driver.Dialect = d
	return &driver
}

// The oldest version that is served; and since when there is a flag that
// forbids questions. That one's first version is not documented: it is in a
// reference that is older than 0.51 (contract, section 5), and asking in vain
// for it fails.
func oldest() microvm.Version     { return microvm.Version{Minor: 38} }
func hasNoInput() microvm.Version { return microvm.Version{Minor: 51} }

// Name implements [microvm.Dialect].
func (d *Dialect) Name() string { return Name }

// errMissing says how to get sbx.
var errMissing = fmt.Errorf("%w: there is no sbx on PATH. Install Docker Sandboxes (https://docs.docker.com/ai/sandboxes/), or use \"--driver container\"", lifecycle.ErrNotInstalled)

// Client implements [microvm.Dialect].
func (d *Dialect) Client(ctx context.Context) (microvm.Client, error) {
	path, err := exec.LookPath("sbx")
	if errors.Is(err, exec.ErrNotFound) {
		return microvm.Client{}, errMissing
	}
	if err != nil {
		return microvm.Client{}, fmt.Errorf("looking for sbx: %w", err)
	}
	client := microvm.Client{Path: path, Typed: "sbx"}
	version, err := d.version(ctx, client)
	if err != nil {
		return microvm.Client{}, err
	}
	if version.Less(oldest()) {
		return microvm.Client{}, fmt.Errorf("%s has version %s, not Docker's %s or newer: update it, if it is Docker's", path, version, oldest())
	}
	if !version.Less(hasNoInput()) {
		client.Args = []string{"--no-input"}
	}
	return client, nil
}

// Root implements [microvm.Dialect].
func (d *Dialect) Root() string { return "sandboxes" }

// Create implements [microvm.Dialect]. Memory and processors are always given:
// sbx would give half of the one and all of the others to every sandbox.
func (d *Dialect) Create(ctx context.Context, spec lifecycle.Spec, extra []microvm.Mount) ([]string, error) {
	client, err := d.Client(ctx)
	if err != nil {
		return nil, err
	}
	memory, err := limitMemory(spec.Resources.Memory)
	if err != nil {
		return nil, err
	}
	args := []string{
		"create", "--quiet", "--name", spec.Name,
		"--cpus", strconv.Itoa(processors(spec.Resources.NanoCPUs)),
		"--memory", strconv.FormatInt(memory>>20, 10) + "m",
	}
	template, err := d.template(ctx, client, spec.Image)
	if err != nil {
		return nil, err
	}
	args = append(args, template...)
	if spec.Private {
		args = append(args, "--clone")
	}
	args = append(args, "shell", spec.Root) // ralph starts the agent itself
	for _, m := range extra {
		args = append(args, m.Argument())
	}
	return args, nil
}

// template returns the flags that choose the image.
func (d *Dialect) template(ctx context.Context, client microvm.Client, image string) ([]string, error) {
	if d.Images != nil {
		loaded, found, err := d.Images.load(ctx, client, image)
		if err != nil {
			return nil, err
		}
		if found {
			return []string{"--pull", "never", "--template", loaded}, nil
		}
	}
	// sbx adds neither docker.io/ nor a tag (contract, section 5.1).
	full, err := reference.ParseDockerRef(image)
	if err != nil {
		return nil, fmt.Errorf("the image %q: %w", image, err)
	}
	return []string{"--pull", "missing", "--template", full.String()}, nil
}

// Start implements [microvm.Dialect].
func (d *Dialect) Start(name string) []string { return []string{"run", "--detached", "--name", name} }

// Stop implements [microvm.Dialect].
func (d *Dialect) Stop(name string) []string { return []string{"stop", name} }

// Remove implements [microvm.Dialect].
func (d *Dialect) Remove(name string) []string { return []string{"rm", "--force", name} }

// Exec implements [microvm.Dialect].
func (d *Dialect) Exec(name string, opts microvm.ExecOptions) []string {
	return append(opts.Arguments(name), "--")
}

// Heartbeat implements [microvm.Dialect]: any open session keeps a sandbox.
func (d *Dialect) Heartbeat() time.Duration { return 0 }

// Manual implements [microvm.Dialect].
func (d *Dialect) Manual(name string) lifecycle.Manual {
	return lifecycle.Manual{List: "sbx ls", Stop: "sbx stop " + name, Remove: "sbx rm --force " + name}
}

// Usable tells whether sbx can make sandboxes here: it is installed, logged in
// and its network policy is set.
func (d *Dialect) Usable(ctx context.Context) error {
	client, err := d.Client(ctx)
	if err != nil {
		return err
	}
	if err := d.kvm(); err != nil {
		return err
	}
	if _, err := d.ask(ctx, client, "ls", "--json"); err != nil {
		return err
	}
	out, err := d.ask(ctx, client, "policy", "ls", "--json")
	if err != nil {
		return err
	}
	if noRules(out) {
		return errNoPolicy
	}
	return nil
}

// ask runs a command that is only asked whether it works.
func (d *Dialect) ask(ctx context.Context, client microvm.Client, args ...string) ([]byte, error) {
	out, err := client.Output(ctx, 15*time.Second, args...)
	if c, ok := errors.AsType[*microvm.CallError](err); ok {
		if known := d.Explain(c); known != nil {
			return nil, known
		}
	}
	return out, err
}

// noRules tells whether a list of the policy's rules is empty. What it is before
// a policy was set is not documented; one that was set has rules. One that denies
// everything still has those for mounts, by what others have seen listed.
func noRules(output []byte) bool {
	var list struct {
		Rules *[]json.RawMessage `json:"rules"`
	}
	start := bytes.IndexByte(output, '{')
	return start >= 0 && json.NewDecoder(bytes.NewReader(output[start:])).Decode(&list) == nil && list.Rules != nil && len(*list.Rules) == 0
}
