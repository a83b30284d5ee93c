package config

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/docker-ralph/docker-ralph/egress"
)

// form is how a value is written.
type form int

const (
	text    form = iota // "in quotes"
	whole               // 1024
	decimal             // 1.5 or "1.5"
	truth               // true or false
	names               // ["A", "B"], taken name by name
	list                // ["a b", "c"], taken as a whole, in JSON
)

// setting is one key of the configuration.
type setting struct {
	key  string
	form form
	env  string // environment variable, empty for none
	// alias is a variable of another program that means the same; env wins.
	alias string
	// set checks a value, already of the right form, and stores it.
	set func(c *Config, v string, from OriginKind) error
	// check is about a value that names an image; nil for none.
	check func(images ImageChecker, v string) error
	// setNamed is set's place in a setting whose key has the component "*",
	// which stands for any name.
	setNamed func(c *Config, name, v string) error
}

// called is the setting for one name.
func (s setting) called(name string) setting {
	s.key = strings.Replace(s.key, anyName, name, 1)
	setNamed := s.setNamed
	s.set = func(c *Config, v string, _ OriginKind) error { return setNamed(c, name, v) }
	return s
}

// anyName stands for a name that the user chooses, below tableAgents.
const (
	anyName     = "*"
	tableAgents = "agents"
)

// Keys that other code has to name.
const (
	keyAgent   = "agent.name"
	keyPaths   = "agent.endpoint_paths"
	keyEnabled = "sandbox.enabled"
	keyDriver  = "sandbox.driver"
	keyImage   = "sandbox.image"
	keyGit     = "sandbox.git"
	keyBase    = "image.base"
	keyNetwork = "image.network"
	keyPass    = "env.pass"
	keyTimeout = "sandbox.resources.timeout_minutes"

	keyReadOnly = "sandbox.read_only"
	keyRuntime  = "sandbox.runtime"
	keyShadow   = "sandbox.shadow_node_modules"
	keyGitToken = "sandbox.git_token"
	keySign     = "sandbox.sign"
	keyPolicy   = "sandbox.network.policy"
	keyPresets  = "sandbox.network.presets"
	// KeyAllowed is the key of the hosts that are allowed by name.
	KeyAllowed = "sandbox.network.allowed"
	// KeyMemory and KeyCPUs are the keys of limits that not every driver has.
	KeyMemory = "sandbox.resources.memory"
	KeyCPUs   = "sandbox.resources.cpus"
	// KeyChecks is the key of the checks.
	KeyChecks = "checks.commands"
)

// settings lists every key that exists.
func settings() []setting {
	return slices.Concat(mainSettings(), wallSettings(), loopSettings(), agentSettings())
}

func mainSettings() []setting {
	return []setting{
		{key: keyAgent, form: text, env: "RALPH_AGENT", set: func(c *Config, v string, _ OriginKind) error {
			c.Agent.Name = v
			return checkAgent(v)
		}},
		{key: "agent.model", form: text, env: "RALPH_MODEL", set: func(c *Config, v string, _ OriginKind) error {
			c.Agent.Model = v
			return checkModel(v)
		}},
		{key: "agent.permissions", form: text, env: "RALPH_PERMISSIONS", set: func(c *Config, v string, _ OriginKind) error {
			c.Agent.Permissions = v
			return checkChoice(v, PermissionsBypass, PermissionsAsk)
		}},
		{key: keyPaths, form: names, env: "RALPH_ENDPOINT_PATHS", set: addEndpointPath},
		{key: keyEnabled, form: truth, set: func(c *Config, v string, _ OriginKind) (err error) {
			c.Sandbox.Enabled, err = strconv.ParseBool(v)
			return err
		}},
		{key: keyDriver, form: text, env: "RALPH_DRIVER", set: func(c *Config, v string, _ OriginKind) error {
			c.Sandbox.Driver = v
			return checkChoice(v, DriverAuto, DriverSbx, DriverDockerSandbox, DriverContainer)
		}},
		{key: keyImage, form: text, env: "RALPH_IMAGE", alias: "DOCKER_SANDBOX_IMAGE", set: func(c *Config, v string, _ OriginKind) error {
			c.Sandbox.Image = v
			return nil
		}, check: ImageChecker.Image},
		{key: keyGit, form: text, env: "RALPH_GIT", set: func(c *Config, v string, _ OriginKind) error {
			c.Sandbox.Git = v
			return checkChoice(v, GitDirect, GitPrivate)
		}},
		{key: "sandbox.reuse_container", form: truth, set: func(c *Config, v string, _ OriginKind) (err error) {
			c.Sandbox.Reuse, err = strconv.ParseBool(v)
			return err
		}},
		{key: KeyMemory, form: text, env: "RALPH_MEMORY", set: func(c *Config, v string, _ OriginKind) (err error) {
			c.Sandbox.Resources.Memory, err = parseMemory(v)
			return err
		}},
		{key: KeyCPUs, form: decimal, env: "RALPH_CPUS", set: func(c *Config, v string, _ OriginKind) (err error) {
			c.Sandbox.Resources.CPUs, err = parseCPUs(v)
			return err
		}},
		{key: "sandbox.resources.pids", form: whole, env: "RALPH_PIDS", set: func(c *Config, v string, _ OriginKind) (err error) {
			c.Sandbox.Resources.Pids, err = parseWhole(v, minPids, maxPids)
			return err
		}},
		{key: keyTimeout, form: whole, env: "RALPH_TIMEOUT_MINUTES", set: func(c *Config, v string, _ OriginKind) error {
			minutes, err := parseWhole(v, 1, maxTimeoutMinutes)
			c.Sandbox.Resources.Timeout = time.Duration(minutes) * time.Minute
			return err
		}},
		{key: keyPass, form: names, env: "RALPH_DOCKER_ENV", set: addPassedName},
		{key: keyBase, form: text, env: "RALPH_BASE", set: func(c *Config, v string, _ OriginKind) error {
			c.Image.Base = v
			return nil
		}, check: ImageChecker.Base},
		{key: keyNetwork, form: text, env: "RALPH_IMAGE_NETWORK", set: func(c *Config, v string, _ OriginKind) error {
			c.Image.Network = v
			return checkChoice(v, BuildNetworkDefault, BuildNetworkNone)
		}},
		{key: KeyChecks, form: list, set: func(c *Config, v string, _ OriginKind) error { return c.setChecks(v) }},
	}
}

// wallSettings are those of what holds a sandbox in.
func wallSettings() []setting {
	return []setting{
		{key: keyReadOnly, form: truth, set: func(c *Config, v string, _ OriginKind) (err error) {
			c.Sandbox.ReadOnly, err = strconv.ParseBool(v)
			return err
		}},
		{key: keyRuntime, form: text, env: "RALPH_RUNTIME", set: func(c *Config, v string, _ OriginKind) error {
			c.Sandbox.Runtime = v
			return checkRuntime(v)
		}},
		{key: keyShadow, form: text, set: func(c *Config, v string, _ OriginKind) error {
			c.Sandbox.ShadowModules = v
			return checkChoice(v, ShadowAuto, ShadowOn, ShadowOff)
		}},
		{key: keyGitToken, form: text, env: "RALPH_GIT_TOKEN", set: func(c *Config, v string, _ OriginKind) error {
			c.Sandbox.GitToken = v
			return checkChoice(v, GitTokenNone, GitTokenRead, GitTokenWrite)
		}},
		{key: keySign, form: truth, env: "RALPH_SIGN", set: func(c *Config, v string, _ OriginKind) (err error) {
			if c.Sandbox.Sign, err = strconv.ParseBool(v); err != nil {
				return errors.New("it has to be true or false")
			}
			return nil
		}},
		{key: keyPolicy, form: text, env: "RALPH_NETWORK", set: func(c *Config, v string, _ OriginKind) (err error) {
			c.Sandbox.Network.Policy, err = egress.ParseMode(v)
			return err
		}},
		{key: keyPresets, form: list, set: func(c *Config, v string, _ OriginKind) error { return c.setPresets(v) }},
		{key: KeyAllowed, form: names, env: "RALPH_ALLOW", set: addAllowed},
	}
}

// addAllowed adds one rule to sandbox.network.allowed, once.
func addAllowed(c *Config, v string, _ OriginKind) error {
	if _, err := egress.ParseRule(v); err != nil {
		return err
	}
	if n := &c.Sandbox.Network; !slices.Contains(n.Allowed, v) {
		n.Allowed = append(n.Allowed, v)
	}
	return nil
}

// addEndpointPath adds one path to agent.endpoint_paths, once.
func addEndpointPath(c *Config, v string, _ OriginKind) error {
	if path.Clean(v) != v || !strings.HasPrefix(v, "/") || strings.ContainsAny(v, "?#%\\ ") {
		return errors.New(`it has to be a path such as "/v1/embeddings", without a query`)
	}
	if a := &c.Agent; !slices.Contains(a.EndpointPaths, v) {
		a.EndpointPaths = append(a.EndpointPaths, v)
	}
	return nil
}

// addPassedName adds one variable to env.pass, once.
func addPassedName(c *Config, v string, from OriginKind) error {
	if err := checkEnvName(v, from); err != nil {
		return err
	}
	for _, name := range c.Env.Pass {
		if name == v {
			return nil
		}
	}
	c.Env.Pass = append(c.Env.Pass, v)
	return nil
}

// defaults is the configuration of somebody who has set nothing.
func defaults() Config {
	return Config{
		Agent: Agent{Name: "claude", Permissions: PermissionsBypass},
		Image: Image{Network: BuildNetworkDefault},
		Loop:  Loop{MaxFailures: 3, Idle: 30 * time.Minute, MaxWait: 6 * time.Hour, Grace: time.Minute},
		Sandbox: Sandbox{
			Enabled: true, Driver: DriverAuto, Reuse: true, Git: GitPrivate, GitToken: GitTokenNone, ReadOnly: true,
			ShadowModules: ShadowAuto,
			Network:       Network{Policy: egress.Allowlist, Presets: DefaultPresets()},
			Resources:     Resources{Memory: 8 << 30, CPUs: 4, Pids: 1024, Timeout: 60 * time.Minute},
		},
	}
}

// read takes a TOML value of the setting's form as text.
func (s setting) read(v node) (string, error) {
	switch {
	case s.form == text && v.kind == unstable.String,
		s.form == truth && v.kind == unstable.Bool,
		s.form == whole && v.kind == unstable.Integer,
		s.form == decimal && v.kind == unstable.String,
		s.form == list && v.kind == unstable.String,
		s.form == names && v.kind == unstable.String: // one item of the list
		return v.text, nil
	case s.form == decimal && (v.kind == unstable.Integer || v.kind == unstable.Float):
		return strings.TrimPrefix(strings.ReplaceAll(v.text, "_", ""), "+"), nil
	default:
		return "", fmt.Errorf("it has to be %s", s.form)
	}
}

// String tells how to write a value.
func (f form) String() string {
	switch f {
	case text:
		return "text in quotes"
	case whole:
		return "a whole number without quotes"
	case decimal:
		return `a number, as 4 or "1.5"`
	case truth:
		return "true or false, without quotes"
	case list:
		return `a list of texts, as ["make test"]`
	default:
		return `a list of names, as ["MY_VARIABLE"]`
	}
}

// checkFlagTimeout checks a --timeout, which is finer than minutes.
func checkFlagTimeout(d time.Duration) error {
	if d < time.Second || d > maxTimeoutMinutes*time.Minute {
		return errors.New("it has to be between 1s and a year")
	}
	return nil
}
