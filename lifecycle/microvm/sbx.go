package microvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/moby/moby/client/pkg/versions"
	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// sbx is Docker's sbx, which needs no Docker Engine.
type sbx struct {
	stateDir string
	engine   Engine
	kvm      string
}

func sbxDialect(o Options) dialect {
	return dialect{
		cli: "sbx", listKey: "sandboxes",
		remove: []string{"rm", "--force"}, separator: []string{"--"},
		pin:     []string{"run", "--detached", "--name"}, // since 0.47
		limits:  true,
		remedy:  `run "sbx daemon restart"`,
		program: &sbx{o.StateDir, o.Engine, o.KVM},
	}
}

// Versions of sbx: the oldest one supported, the first whose "secret ls" prints JSON; and
// one that has --no-input. The first with that flag is not documented (contract, section 5).
const (
	minVersion     = "0.47.0"
	noInputVersion = "0.51.0"
)

var errNoSbx = hint.Wrap(fmt.Errorf("%w: sbx is not on PATH", lifecycle.ErrNotInstalled), installHint)

const installHint = "install Docker Sandboxes (https://docs.docker.com/ai/sandboxes/), or use --driver container"

func (s *sbx) client(ctx context.Context) (client, error) {
	path, err := exec.LookPath("sbx")
	if errors.Is(err, exec.ErrNotFound) {
		return client{}, errNoSbx
	}
	if err != nil {
		return client{}, fmt.Errorf("finding sbx: %w", err)
	}
	c := client{path: path, cli: "sbx"}
	version, err := s.version(ctx, c)
	switch {
	case err != nil:
		return client{}, fmt.Errorf("reading the version of sbx: %w", err)
	case versions.LessThan(version, minVersion):
		return client{}, hint.Wrap(fmt.Errorf("%s has version %s, but Docker's sbx %s or newer is required", path, version, minVersion), "update it; if it is another program, use --driver container")
	case !versions.LessThan(version, noInputVersion):
		c.args = []string{"--no-input"}
	}
	return c, nil
}

// cachedVersion is the cached version of a program file: asking sbx for it is slow.
type cachedVersion struct {
	Path     string    `json:"path"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	Version  string    `json:"version"`
}

func (s *sbx) version(ctx context.Context, c client) (string, error) {
	info, err := os.Stat(c.path)
	if err != nil {
		return "", err
	}
	now := cachedVersion{Path: c.path, Size: info.Size(), Modified: info.ModTime().UTC()}
	file := filepath.Join(s.stateDir, "sbx-version.json")
	var known cachedVersion
	if content, err := os.ReadFile(file); err == nil && json.Unmarshal(content, &known) == nil {
		now.Version = known.Version
		if now == known {
			return now.Version, nil
		}
	}
	out, err := c.output(ctx, limitList, "version")
	if err != nil {
		return "", err
	}
	if now.Version, err = parseVersion(out); err != nil {
		return "", err
	}
	content, err := json.Marshal(now)
	if err == nil {
		err = os.MkdirAll(s.stateDir, 0o700)
	}
	if err == nil {
		err = atomicwriter.WriteFile(file, append(content, '\n'), 0o600)
	}
	return now.Version, err
}

var versionPattern = regexp.MustCompile(`\d{1,6}\.\d{1,6}\.\d{1,6}`)

// parseVersion finds the first version in the output of "sbx version", whose format has
// changed several times.
func parseVersion(output []byte) (string, error) {
	if found := versionPattern.Find(output); found != nil {
		return string(found), nil
	}
	return "", fmt.Errorf("no version in %.80q", output)
}

var errNoPolicy = hint.Wrap(errors.New("the network policy of sbx is not set"), "set one with %q", "sbx policy init balanced")

// usable reports whether sbx is logged in and its network policy is set.
func (s *sbx) usable(ctx context.Context, d *Driver) error {
	if _, err := s.client(ctx); err != nil {
		return err
	}
	if err := s.noKVM(); err != nil {
		return err
	}
	if _, err := d.call(ctx, limitList, "ls", "--json"); err != nil {
		return err
	}
	out, err := d.call(ctx, limitList, "policy", "ls", "--json")
	if err != nil {
		return err
	}
	// A policy has rules; one that denies everything has those for mounts.
	var list struct {
		Rules *[]json.RawMessage `json:"rules"`
	}
	if decode(out, &list) == nil && list.Rules != nil && len(*list.Rules) == 0 {
		return errNoPolicy
	}
	return nil
}

// create always limits memory and processors: sbx would give half of the memory and all
// processors to every sandbox.
func (s *sbx) create(ctx context.Context, d *Driver, spec lifecycle.Spec) ([]string, error) {
	memory, err := limitMemory(spec.Resources.Memory)
	if err != nil {
		return nil, err
	}
	template, err := s.template(ctx, d, spec.Image)
	if err != nil {
		return nil, err
	}
	return append([]string{
		"--quiet",
		"--cpus", strconv.Itoa(processors(spec.Resources.NanoCPUs)),
		"--memory", strconv.FormatInt(memory>>20, 10) + "m",
	}, template...), nil
}

// template returns the flags that choose the image.
func (s *sbx) template(ctx context.Context, d *Driver, image string) ([]string, error) {
	if s.engine != nil {
		loaded, found, err := s.load(ctx, d, image)
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
		return nil, fmt.Errorf("image %q: %w", image, err)
	}
	return []string{"--pull", "missing", "--template", full.String()}, nil
}

// processors returns the number of whole processors for a limit in billionths: at least one,
// at most all.
func processors(nano int64) int {
	return max(1, min(int((nano+1e9-1)/1e9), runtime.NumCPU()))
}

// limitMemory limits a size in bytes to what sbx accepts: at least 512 MiB, and at most three
// quarters of the machine's memory (contract, section 5.1).
func limitMemory(bytes int64) (int64, error) {
	const least = 512 << 20
	total, err := hostMemory()
	if err != nil {
		return 0, fmt.Errorf("reading the memory size of this machine: %w", err)
	}
	return max(min(bytes, total/4*3), least), nil
}

// explain recognizes known error texts (contract, sections 5.3, 7 and 9).
func (s *sbx) explain(c *callError) error {
	switch {
	case c.mentions("due to a network issue"):
		return hint.Wrap(errors.New("sbx could not reach Docker to renew your login"), "check your network connection, or log in with %q", "sbx login")
	case c.mentions("not authenticated to docker", "failed to refresh token"):
		return hint.Wrap(errors.New("sbx is not logged in to Docker"), "log in with %q", "sbx login")
	case c.mentions("sbx policy init"):
		return errNoPolicy
	case c.mentions("backend unavailable"):
		return hint.Wrap(errors.New("sbx has lost its engine"), "restart it with %q", "sbx daemon restart")
	case c.mentions("ensure daemon", "daemon failed to start", "cannot connect to the", "dial unix"):
		return hint.Wrap(fmt.Errorf("the daemon of sbx is not running and does not start (%s)", c.message()), "run %q, then start it with %q", "sbx diagnose", "sbx daemon start --detach")
	case c.mentions("kvm"):
		return errKVM(c.message())
	case c.mentions("failed to run sandbox container"):
		if err := s.noKVM(); err != nil {
			return err
		}
		return hint.Wrap(fmt.Errorf("sbx could not start the microVM (%s)", c.message()), "run %q", "sbx diagnose")
	default:
		return nil
	}
}

// noKVM returns an error if microVMs cannot run on this machine.
func (s *sbx) noKVM() error {
	if runtime.GOOS != "linux" || s.kvm == "" {
		return nil
	}
	f, err := os.OpenFile(s.kvm, os.O_RDWR, 0)
	switch {
	case err == nil:
		return f.Close()
	case errors.Is(err, os.ErrPermission):
		return hint.Wrap(fmt.Errorf("no permission to use %s, which sbx needs", s.kvm), "join its group with %q, then log in again", "sudo usermod -aG kvm $USER")
	default:
		return errKVM("there is no " + s.kvm)
	}
}

func errKVM(why string) error {
	return hint.Wrap(fmt.Errorf("this machine has no KVM, which sbx needs for its microVMs (%s)", why),
		"enable virtualization in its firmware (or nested virtualization, on a virtual machine), or use --driver container")
}

func (s *sbx) log(name string) []string { return []string{"policy", "log", name, "--json"} }

// keys returns the services for which sbx has keys that apply to all sandboxes.
func (s *sbx) keys(ctx context.Context, d *Driver, _ []credential.Service, _ func([]string) bool) (map[string]bool, error) {
	out, err := d.call(ctx, limitList, "secret", "ls", "--json")
	stored := map[string]bool{}
	if err == nil {
		err = parseKeys(out, stored)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the keys of sbx: %w", err)
	}
	return stored, nil
}

// parseKeys adds the services with a key for all sandboxes that "secret ls --json" lists.
// Keys of registries have another type.
func parseKeys(output []byte, stored map[string]bool) error {
	var list struct {
		Secrets *[]struct{ Scope, Type, Name string } `json:"secrets"`
	}
	if err := decode(output, &list); err != nil {
		return err
	}
	if list.Secrets == nil {
		return errors.New("no list of secrets")
	}
	for _, s := range *list.Secrets {
		if strings.Trim(s.Scope, "()") == "global" && s.Type == "service" {
			stored[s.Name] = true
		}
	}
	return nil
}

func (s *sbx) missingKeyHint(services []credential.Service) string {
	var names []string
	for _, service := range services {
		names = append(names, service.Name)
	}
	return fmt.Sprintf("sbx has no key for %s: the agent has to log in by itself\nHint: store one with \"sbx secret set %s\"",
		strings.Join(names, ", "), names[0])
}
