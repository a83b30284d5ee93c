package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/hint"
)

// Sources says where the configuration is read from. Later beats earlier:
// defaults, the repository's file, the user's file, the environment, the
// command line. Only env.pass adds up.
type Sources struct {
	// Root is the worktree's root, which has ralph.toml; empty for none.
	Root string
	// UserDir is the plugin's directory in Docker's configuration directory,
	// which has config.toml; empty for none.
	UserDir string
	// Getenv looks an environment variable up; nil for no environment. A
	// variable that is set but empty counts as unset.
	Getenv func(string) string
	// Overrides are the command line's values.
	Overrides Overrides
	// OnHost is set when the agent runs on this machine without a sandbox.
	OnHost bool
	// Images checks image references; nil for no check.
	Images ImageChecker
	// InForce are the settings of the repository's file before a command in which an agent could
	// change it (see TrustStore.Hold); nil for none.
	InForce Settings
}

// ImageChecker validates image references. It is not called for empty ones.
type ImageChecker interface {
	Image(v string) error // a reference, or an image's ID
	Base(v string) error  // what can follow FROM
}

// Overrides are values from the command line; nil means not given.
type Overrides struct {
	Agent   *string  // --agent
	Model   *string  // --model
	Driver  *string  // --driver
	Image   *string  // --image
	Network *string  // --network
	Allow   []string // --allow
	// Workspace is --workspace.
	Workspace *string
	// GitToken is --git-token.
	GitToken *string
	Sign     *string        // --sign, as "true"
	Base     *string        // --base
	Memory   *string        // --memory, as "8g"
	CPUs     *string        // --cpus, as "1.5"
	Timeout  *time.Duration // --timeout, at least a second
	Env      []string       // --env, names only
}

// Effective is the configuration and where each of its values is from.
type Effective struct {
	Config
	// Origins maps a key such as "sandbox.image" to the source of its value.
	// Every key has one. "env.pass" has the last source that gave a name, and
	// "env.pass.NAME" the last one that gave this name.
	Origins map[string]Origin
	// Privileged lists the settings of the repository's file that need the
	// user's approval (see TrustStore.Require).
	Privileged []PrivilegedSetting
	// Repository are the settings of the repository's file, and Loosened says that they are looser than
	// Sources.InForce.
	Repository Settings
	Loosened   bool

	root  string
	texts map[string][]string // values by key, as they were written; of a list, its items
}

// Guest is the part of the configuration that ralph gets inside the sandbox.
func (e Effective) Guest(sandboxed bool) Guest {
	return Guest{
		Agent:          e.Agent.Name,
		Model:          e.Agent.Model,
		Permissions:    e.Agent.Permissions,
		Sandboxed:      sandboxed,
		TimeoutSeconds: int64(e.Sandbox.Resources.Timeout.Seconds()),
		Loop:           e.Loop,
		Checks:         e.Checks,
		CustomAgents:   e.Agents,
		Prices:         e.Prices,
	}
}

// Load reads, checks and merges all sources. Missing files are no error. A
// mistake in a file is a *FileError, or several of them joined; a mistake
// counts even where a later source would win.
func Load(s Sources) (Effective, error) {
	repository, err := load(s.Root, readRepository)
	if err != nil {
		return Effective{}, err
	}
	user, err := load(s.UserDir, readUser)
	if err != nil {
		return Effective{}, err
	}
	return merge(s, repository, user)
}

// merge applies the sources in order.
func merge(s Sources, repository, user []assigned) (Effective, error) {
	m := merger{images: s.Images, e: Effective{Config: defaults(), Origins: map[string]Origin{}, root: s.Root, texts: map[string][]string{}}}
	for _, setting := range settings() {
		if setting.setNamed == nil {
			m.e.Origins[setting.key] = Origin{}
		}
	}
	m.apply(repository)
	m.apply(user)
	m.apply(environment(s.Getenv))
	m.apply(flags(s.Overrides))
	m.timeout(s.Overrides.Timeout)
	m.requireCommands()
	m.requirePrices()
	if len(m.problems) > 0 {
		return Effective{}, joinProblems(m.problems)
	}
	if !m.e.Sandbox.Enabled && !s.OnHost {
		return Effective{}, m.disabled
	}
	m.e.Repository = settingsOf(repository)
	m.e.Privileged = privilegedSettings(repository, user, m.e.Origins)
	m.e.addLoosened(loosened(s.InForce, repository, user, m.e.Origins))
	return m.e, nil
}

// load reads one file's values.
func load(dir string, read func(string) (document, error)) ([]assigned, error) {
	if dir == "" {
		return nil, nil
	}
	d, err := read(dir)
	if err != nil {
		return nil, err
	}
	return d.interpret()
}

// merger applies values to a configuration.
type merger struct {
	e        Effective
	images   ImageChecker
	problems []error
	disabled error // returned if sandbox.enabled stays false
}

func (m *merger) apply(values []assigned) {
	m.resetAgents(values)
	for _, g := range values {
		if err := errors.Join(m.checkImage(g), g.setting.set(&m.e.Config, g.value, g.origin.Kind)); err != nil {
			m.problems = append(m.problems, g.fail(err))
			continue
		}
		key := g.setting.key
		m.e.Origins[key] = g.origin
		m.e.texts[key] = append(m.e.texts[key], g.value)
		m.e.Origins[identity(g)] = g.origin
		if key == keyEnabled {
			m.disabled = g.fail(errDisabled)
		}
	}
}

func (m *merger) checkImage(g assigned) error {
	if m.images == nil || g.setting.check == nil || g.value == "" {
		return nil
	}
	return g.setting.check(m.images, g.value)
}

var errDisabled = hint.Wrap(errors.New("docker ralph cannot run without a sandbox"),
	"remove this line, or run ralph itself on this machine: ralph build --danger")

// timeout applies --timeout, which is finer than the file's minutes.
func (m *merger) timeout(d *time.Duration) {
	if d == nil {
		return
	}
	if err := checkFlagTimeout(*d); err != nil {
		m.problems = append(m.problems, fmt.Errorf("invalid --timeout %s: %w", d, err))
		return
	}
	m.e.Sandbox.Resources.Timeout = *d
	m.e.texts[keyTimeout] = []string{strconv.FormatFloat(d.Minutes(), 'f', -1, 64)}
	m.e.Origins[keyTimeout] = Origin{Kind: FromFlag, Name: "--timeout"}
}

// variable is the name of the setting's variable that is set, empty for none.
func (s setting) variable(getenv func(string) string) string {
	for _, name := range []string{s.env, s.alias} {
		if name != "" && getenv(name) != "" {
			return name
		}
	}
	return ""
}

// environment reads the variables that set a value.
func environment(getenv func(string) string) []assigned {
	if getenv == nil {
		return nil
	}
	var values []assigned
	for _, s := range settings() {
		name := s.variable(getenv)
		if name == "" {
			continue
		}
		origin := Origin{Kind: FromEnvironment, Name: name}
		items := []string{getenv(name)}
		if s.form == names {
			items = strings.Split(items[0], ",")
		}
		for _, item := range items {
			if item = strings.TrimSpace(item); item == "" {
				continue
			}
			fail := func(err error) error { return fmt.Errorf("invalid %s=%q: %w", name, item, err) }
			values = append(values, assigned{setting: s, value: item, origin: origin, fail: fail})
		}
	}
	return values
}

// flagKeys returns the keys that flags of the command line set, by the names of the flags.
func flagKeys() map[string]string {
	return map[string]string{
		"agent": keyAgent, "model": "agent.model", "driver": "sandbox.driver", "image": keyImage, "base": keyBase, "memory": KeyMemory, "cpus": KeyCPUs,
		"network": keyPolicy, "workspace": KeyWorkspace, "git-token": keyGitToken, "sign": keySign, "allow": KeyAllowed, "env": keyPass,
	}
}

// CheckFlag returns an error that says what a value of a flag of the command line must be.
func CheckFlag(images ImageChecker, name, value string) error {
	if name == "timeout" {
		d, err := time.ParseDuration(value)
		if err != nil {
			return errors.New("must be a duration such as 90m or 1h30m")
		}
		return checkFlagTimeout(d)
	}
	key, found := flagKeys()[name]
	if !found {
		return nil
	}
	m := merger{images: images, e: Effective{Config: defaults()}}
	s := schema().settings[key]
	return errors.Join(m.checkImage(assigned{setting: s, value: value}), s.set(&m.e.Config, value, FromFlag))
}

// flags converts the command line's values.
func flags(o Overrides) []assigned {
	known, keys := schema(), flagKeys()
	var values []assigned
	add := func(name string, value *string) {
		if value == nil {
			return
		}
		name, s := "--"+name, known.settings[keys[name]]
		fail := func(err error) error { return fmt.Errorf("invalid %s %q: %w", name, *value, err) }
		values = append(values, assigned{s, *value, Origin{Kind: FromFlag, Name: name}, fail})
	}
	add("agent", o.Agent)
	add("model", o.Model)
	add("driver", o.Driver)
	add("image", o.Image)
	add("base", o.Base)
	add("memory", o.Memory)
	add("cpus", o.CPUs)
	add("network", o.Network)
	add("workspace", o.Workspace)
	add("git-token", o.GitToken)
	add("sign", o.Sign)
	for i := range o.Allow {
		add("allow", &o.Allow[i])
	}
	for i := range o.Env {
		add("env", &o.Env[i])
	}
	return values
}
