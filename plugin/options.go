package plugin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/config/imageref"
	"github.com/docker-ralph/docker-ralph/config/runflags"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// options are the flags before a command.
type options struct {
	agent, driver, image, base string
	memory, cpus               string
	timeout                    time.Duration
	env                        []string
	recreate, rebuild, sign    bool
	move                       bool
	credScan, progress         choice
	noHostConfig               bool
	network, gitToken          string
	workspace                  string
	allow                      []string
	worktree                   worktreeOptions
	detach                     bool
	requireClean, dryRun       bool
	withChanges                bool

	flags *pflag.FlagSet
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	o.flags = flags
	flags.StringVar(&o.agent, "agent", "", `Coding agent (e.g., "claude", "shell")`)
	flags.StringVar(&o.driver, "driver", "", `Sandbox driver ("auto", "sbx", "docker-sandbox", "container")`)
	flags.StringVar(&o.image, "image", "", "Image to use as is")
	flags.StringVar(&o.base, "base", "", "Base of the agent image")
	flags.StringVar(&o.memory, "memory", "", `Memory limit (e.g., "8g")`)
	flags.StringVar(&o.cpus, "cpus", "", "Number of CPUs")
	flags.DurationVar(&o.timeout, "timeout", 0, `Time limit of each run of the agent (e.g., "90m")`)
	flags.Lookup("timeout").DefValue = config.DefaultTimeout.String()
	flags.StringArrayVarP(&o.env, "env", "e", nil, "Pass an environment variable to the agent (name only)")
	flags.StringVar(&o.workspace, "workspace", "", `Work in a clone or on your files ("auto", "clone", "live")`)
	flags.StringVar(&o.network, "network", "", `Network policy ("allowlist", "deny", "allow-all")`)
	flags.StringArrayVar(&o.allow, "allow", nil, `Allow a host (e.g., "example.com", "*.example.com:8443")`)
	flags.StringVar(&o.gitToken, "git-token", "", `Access of git to the remote with your token ("none", "read", "write")`)
	flags.BoolVar(&o.sign, "sign", false, "Sign the agent's commits with your ssh-agent")
	flags.BoolVar(&o.requireClean, "require-clean", false, "Fail if the worktree has uncommitted changes")
	flags.BoolVar(&o.withChanges, "with-changes", false, "Also send uncommitted changes to a clone")
	flags.BoolVar(&o.noHostConfig, "no-host-config", false, "Do not copy your agent settings into the sandbox")
	flags.BoolVar(&o.recreate, "recreate", false, "Recreate the sandbox")
	flags.BoolVar(&o.rebuild, "rebuild", false, "Rebuild the agent image and recreate the sandbox")
	flags.BoolVar(&o.move, "move", false, "Move the sandbox to the selected engine")
	flags.BoolVar(&o.dryRun, "dry-run", false, "Print what the command would do, without doing it")
	flags.BoolVarP(&o.detach, "detach", "d", false, "Run the loop in the background")
	o.progress = choice{string(projectimage.ModeAuto), modeNames()}
	flags.Var(&o.progress, "progress", `Type of progress output ("auto", "plain", "tty", "quiet", "rawjson")`)
	o.credScan.among = []string{commits.CredScanBlock, commits.CredScanWarn}
	flags.Var(&o.credScan, "cred-scan", `Scan the worktree and new commits for secrets ("block", "warn")`)
	flags.Lookup("cred-scan").NoOptDefVal = commits.CredScanBlock
	flags.VisitAll(func(f *pflag.Flag) {
		f.Value = checkedValue{f.Value, f.Name}
		f.DefValue = strings.TrimSuffix(f.DefValue, "[]") // else help shows it
	})
	o.worktree.addFlags(flags)
	flags.SetInterspersed(false)
	group(flags, sandboxOptions, "agent", "allow", "cpus", "detach", "driver", "dry-run", "env", "memory", "network", "recreate", "timeout", "worktree")
	group(flags, advancedOptions, "base", "branch-name", "cred-scan", "git-token", "image", "move", "no-host-config", "progress", "rebuild", "require-clean", "sign",
		"with-changes", "workspace")
}

// checkedValue is the value of a flag that the configuration checks, if the flag sets a key of it.
type checkedValue struct {
	pflag.Value
	name string
}

// Set implements [pflag.Value].
func (v checkedValue) Set(value string) error {
	if err := config.CheckFlag(imageref.Checker{}, v.name, value); err != nil {
		return err
	}
	return v.Value.Set(value)
}

// checkDryRun applies --dry-run to a command that has an option of that name, and refuses it
// for others that do not run in a sandbox, because they would change something.
func (o *options) checkDryRun(cmd *cobra.Command) error {
	top := topCommand(cmd)
	if !o.dryRun || !top.HasParent() || slices.Contains([]string{runflags.Plan, runflags.Build, runflags.Run, runflags.Shell}, top.Name()) {
		return nil
	}
	if own := cmd.Flags().Lookup("dry-run"); own != nil {
		return own.Value.Set("true")
	}
	return fmt.Errorf("--dry-run does not work with %q", cmd.CommandPath())
}

// choice is a flag with one of several values.
type choice struct {
	value string
	among []string
}

// String implements [pflag.Value].
func (c *choice) String() string { return c.value }

// Type implements [pflag.Value].
func (c *choice) Type() string { return "string" }

// Set implements [pflag.Value].
func (c *choice) Set(value string) error {
	if !slices.Contains(c.among, value) {
		return fmt.Errorf("use one of %s", strings.Join(c.among, ", "))
	}
	c.value = value
	return nil
}

// overrides returns the configuration from flags.
func (o *options) overrides() config.Overrides {
	given := func(name string, value *string) *string {
		if o.flags.Changed(name) {
			return value
		}
		return nil
	}
	over := config.Overrides{
		Agent:   given("agent", &o.agent),
		Driver:  given("driver", &o.driver),
		Image:   given("image", &o.image),
		Base:    given("base", &o.base),
		Network: given("network", &o.network),
		Memory:  given("memory", &o.memory),
		CPUs:    given("cpus", &o.cpus),
		Env:     o.env,
		Allow:   o.allow,

		Workspace: given("workspace", &o.workspace),
		GitToken:  given("git-token", &o.gitToken),
	}
	if o.flags.Changed("sign") {
		sign := strconv.FormatBool(o.sign)
		over.Sign = &sign
	}
	if o.flags.Changed("timeout") {
		over.Timeout = &o.timeout
	}
	return over
}

func completeDrivers(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return completeWords(config.DriverAuto, config.DriverSbx, config.DriverDockerSandbox, config.DriverContainer)(cmd, args, typed)
}
