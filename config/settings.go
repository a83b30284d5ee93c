package config

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/docker-ralph/docker-ralph/egress"
)

// form is how a value is written.
type form int

const (
	stringForm form = iota // "in quotes"
	intForm                // 1024 or "1024"
	floatForm              // 1.5 or "1.5"
	boolForm               // true or false
	names                  // ["A", "B"], one value per name
	list                   // ["a b", "c"], one value, in JSON
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
	// check validates an image reference; nil for none.
	check func(images ImageChecker, v string) error
	// setNamed replaces set for a key with the component "*", any name.
	setNamed func(c *Config, name, v string, from OriginKind) error
	secret   bool // the value is not shown
}

// named returns the setting for one name.
func (s setting) named(name string) setting {
	s.key = strings.Replace(s.key, anyName, name, 1)
	setNamed := s.setNamed
	s.set = func(c *Config, v string, from OriginKind) error { return setNamed(c, name, v, from) }
	return s
}

// anyName stands for any name below tableAgents and tablePrices.
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
	// KeyWorkspace is the key of what a sandbox has of the worktree.
	KeyWorkspace = "sandbox.workspace"
	keyBase      = "image.base"
	keyNetwork   = "image.network"
	keyPass      = "env.pass"
	keyInclude   = "workspace.include"
	keyTimeout   = "sandbox.resources.timeout_minutes"

	// KeyCA is the key of the certificates that are trusted.
	KeyCA = "sandbox.ca"

	keyReadOnly = "sandbox.read_only"
	keyRuntime  = "sandbox.runtime"
	keyGitToken = "sandbox.git_token"
	keySign     = "sandbox.sign"
	keyPolicy   = "sandbox.network.policy"
	keyPresets  = "sandbox.network.presets"
	// KeyAllowed is the key of the hosts that are allowed by name.
	KeyAllowed = "sandbox.network.allowed"
	// KeyMemory and KeyCPUs are the keys of limits that not every driver has.
	KeyMemory = "sandbox.resources.memory"
	KeyCPUs   = "sandbox.resources.cpus"
	// KeyTmp and KeyShm are the keys of sizes of a container.
	KeyTmp          = "sandbox.resources.tmp"
	KeyShm          = "sandbox.resources.shm"
	keyCheckTimeout = "checks.timeout"
	// KeyChecks is the key of the checks.
	KeyChecks = "checks.commands"
)

// settings lists every key that exists.
func settings() []setting {
	return slices.Concat(mainSettings(), isolationSettings(), loopSettings(), agentSettings(), priceSettings(), notifySettings())
}

// stringSetting is a setting with a string, which is checked after it is stored.
func stringSetting(key, env string, field func(*Config) *string, check func(string) error) setting {
	return setting{key: key, form: stringForm, env: env, set: func(c *Config, v string, _ OriginKind) error {
		*field(c) = v
		return check(v)
	}}
}

// boolSetting is a setting that is true or false.
func boolSetting(key, env string, field func(*Config) *bool) setting {
	return setting{key: key, form: boolForm, env: env, set: func(c *Config, v string, _ OriginKind) (err error) {
		if *field(c), err = strconv.ParseBool(v); err != nil {
			return errors.New("must be true or false")
		}
		return nil
	}}
}

// sizeSetting is a setting with a size in bytes, such as "8g".
func sizeSetting(key, env string, field func(*Config) *int64) setting {
	return setting{key: key, form: stringForm, env: env, set: func(c *Config, v string, _ OriginKind) (err error) {
		*field(c), err = parseSize(v)
		return err
	}}
}

// imageSetting is a setting with the name of an image, which an [ImageChecker] checks.
func imageSetting(key, env, alias string, field func(*Config) *string, check func(ImageChecker, string) error) setting {
	s := stringSetting(key, env, field, func(string) error { return nil })
	s.alias, s.check = alias, check
	return s
}

func among(choices ...string) func(string) error {
	return func(v string) error { return checkChoice(v, choices...) }
}

func mainSettings() []setting {
	return []setting{
		stringSetting(keyAgent, "RALPH_AGENT", func(c *Config) *string { return &c.Agent.Name }, checkAgent),
		stringSetting("agent.model", "RALPH_MODEL", func(c *Config) *string { return &c.Agent.Model }, checkModel),
		stringSetting("agent.permissions", "RALPH_PERMISSIONS", func(c *Config) *string { return &c.Agent.Permissions }, among(PermissionsBypass, PermissionsAsk)),
		{key: keyPaths, form: names, env: "RALPH_ENDPOINT_PATHS", set: addEndpointPath},
		boolSetting(keyEnabled, "", func(c *Config) *bool { return &c.Sandbox.Enabled }),
		stringSetting(keyDriver, "RALPH_DRIVER", func(c *Config) *string { return &c.Sandbox.Driver }, among(DriverAuto, DriverSbx, DriverDockerSandbox, DriverContainer)),
		imageSetting(keyImage, "RALPH_IMAGE", "DOCKER_SANDBOX_IMAGE", func(c *Config) *string { return &c.Sandbox.Image }, ImageChecker.Image),
		{key: KeyCA, form: stringForm, env: "RALPH_CA", set: userOnly(setCertificates)},
		stringSetting(KeyWorkspace, "RALPH_WORKSPACE", func(c *Config) *string { return &c.Sandbox.Workspace }, among(WorkspaceAuto, WorkspaceLive, WorkspaceClone)),
		boolSetting("sandbox.reuse_container", "", func(c *Config) *bool { return &c.Sandbox.Reuse }),
		sizeSetting(KeyMemory, "RALPH_MEMORY", func(c *Config) *int64 { return &c.Sandbox.Resources.Memory }),
		sizeSetting(KeyTmp, "RALPH_TMP", func(c *Config) *int64 { return &c.Sandbox.Resources.Tmp }),
		sizeSetting(KeyShm, "RALPH_SHM", func(c *Config) *int64 { return &c.Sandbox.Resources.Shm }),
		{key: KeyCPUs, form: floatForm, env: "RALPH_CPUS", set: func(c *Config, v string, _ OriginKind) (err error) {
			c.Sandbox.Resources.CPUs, err = parseCPUs(v)
			return err
		}},
		{key: "sandbox.resources.pids", form: intForm, env: "RALPH_PIDS", set: func(c *Config, v string, _ OriginKind) (err error) {
			c.Sandbox.Resources.Pids, err = parseInt(v, minPids, maxPids)
			return err
		}},
		{key: keyTimeout, form: intForm, env: "RALPH_TIMEOUT_MINUTES", set: func(c *Config, v string, _ OriginKind) error {
			minutes, err := parseInt(v, 1, maxTimeoutMinutes)
			c.Sandbox.Resources.Timeout = time.Duration(minutes) * time.Minute
			return err
		}},
		{key: keyPass, form: names, env: "RALPH_DOCKER_ENV", set: addPassedName},
		{key: "workspace.setup", form: list, set: func(c *Config, v string, _ OriginKind) (err error) {
			c.Setup, err = decodeCommands(v)
			return err
		}},
		{key: keyInclude, form: names, set: addIncluded},
		imageSetting(keyBase, "RALPH_BASE", "", func(c *Config) *string { return &c.Image.Base }, ImageChecker.Base),
		stringSetting(keyNetwork, "RALPH_IMAGE_NETWORK", func(c *Config) *string { return &c.Image.Network }, among(BuildNetworkDefault, BuildNetworkNone)),
		{key: keyCheckTimeout, form: stringForm, set: func(c *Config, v string, _ OriginKind) (err error) {
			c.Loop.CheckTimeout, err = parseBound(v)
			return err
		}},
		{key: KeyChecks, form: list, set: func(c *Config, v string, _ OriginKind) error { return c.setChecks(v) }},
	}
}

func isolationSettings() []setting {
	return []setting{
		boolSetting(keyReadOnly, "", func(c *Config) *bool { return &c.Sandbox.ReadOnly }),
		stringSetting(keyRuntime, "RALPH_RUNTIME", func(c *Config) *string { return &c.Sandbox.Runtime }, checkRuntime),
		stringSetting(keyGitToken, "RALPH_GIT_TOKEN", func(c *Config) *string { return &c.Sandbox.GitToken }, among(GitTokenNone, GitTokenRead, GitTokenWrite)),
		boolSetting(keySign, "RALPH_SIGN", func(c *Config) *bool { return &c.Sandbox.Sign }),
		{key: keyPolicy, form: stringForm, env: "RALPH_NETWORK", set: func(c *Config, v string, _ OriginKind) (err error) {
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
		return errors.New(`must be an absolute path without a query, such as "/v1/embeddings"`)
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
	if !slices.Contains(c.Env.Pass, v) {
		c.Env.Pass = append(c.Env.Pass, v)
	}
	return nil
}

// addIncluded adds one pattern to workspace.include, once.
func addIncluded(c *Config, v string, _ OriginKind) error {
	if v == "" || strings.ContainsFunc(v, unicode.IsControl) {
		return errors.New(`must be a pattern as in .gitignore, such as ".env.test"`)
	}
	if !slices.Contains(c.Include, v) {
		c.Include = append(c.Include, v)
	}
	return nil
}

// DefaultTmp and DefaultShm are the default sizes of /tmp and /dev/shm, in bytes.
const (
	DefaultTmp = 1 << 30
	DefaultShm = 64 << 20 // the engine's own default
)

// DefaultTimeout is the default time limit of a run.
const DefaultTimeout = time.Hour

// DefaultLoop returns the defaults of [loop].
func DefaultLoop() Loop {
	return Loop{MaxFailures: 3, Idle: 30 * time.Minute, MaxWait: 6 * time.Hour, Grace: time.Minute, CheckTimeout: 10 * time.Minute}
}

// defaults returns the built-in configuration.
func defaults() Config {
	return Config{
		Agent: Agent{Name: "claude", Permissions: PermissionsBypass},
		Image: Image{Network: BuildNetworkDefault},
		Loop:  DefaultLoop(),
		Sandbox: Sandbox{
			Enabled: true, Driver: DriverAuto, Reuse: true, Workspace: WorkspaceAuto, GitToken: GitTokenNone, ReadOnly: true,
			Network:   Network{Policy: egress.Allowlist, Presets: DefaultPresets()},
			Resources: Resources{Memory: 8 << 30, CPUs: 4, Pids: 1024, Tmp: DefaultTmp, Shm: DefaultShm, Timeout: DefaultTimeout},
		},
	}
}

// read returns a TOML value of the setting's form as a string.
func (s setting) read(v node) (string, error) {
	switch {
	case s.form == stringForm && v.kind == unstable.String,
		s.form == boolForm && v.kind == unstable.Bool,
		s.form == intForm && v.kind == unstable.Integer,
		(s.form == intForm || s.form == floatForm) && v.kind == unstable.String,
		s.form == list && v.kind == unstable.String,
		s.form == names && v.kind == unstable.String: // one item of the list
		return v.text, nil
	case s.form == floatForm && (v.kind == unstable.Integer || v.kind == unstable.Float):
		return strings.TrimPrefix(strings.ReplaceAll(v.text, "_", ""), "+"), nil
	default:
		return "", fmt.Errorf("must be %s", s.form)
	}
}

// String describes the form of a value.
func (f form) String() string {
	switch f {
	case stringForm:
		return "a string in quotes"
	case intForm:
		return `an integer, such as 4 or "4"`
	case floatForm:
		return `a number, such as 4 or "1.5"`
	case boolForm:
		return "true or false, without quotes"
	case list:
		return `a list of strings, such as ["make test"]`
	default:
		return `a list of names, such as ["MY_VARIABLE"]`
	}
}

// checkFlagTimeout checks a --timeout, which is finer than minutes.
func checkFlagTimeout(d time.Duration) error {
	if d < time.Second || d > maxTimeoutMinutes*time.Minute {
		return errors.New("must be between 1s and a year")
	}
	return nil
}
