package sandboxcli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/docker/go-units"
	"github.com/google/uuid"
	"github.com/spf13/pflag"
)

// order has the arguments of create and run.
type order struct {
	name, template, pull string
	env, envFiles        []string
	deny                 []string
	cpus                 int
	memory               string
	quiet                bool
	agent                string
	workspaces           []string
}

// orderFlags are the flags of create that matter (DOC S3, S13).
func (c *call) orderFlags(fs *pflag.FlagSet) *order {
	o := &order{}
	fs.StringVar(&o.name, "name", "", "")
	fs.StringVarP(&o.template, "template", "t", "", "")
	if c.cli == plugin {
		fs.StringVar(&o.pull, "pull-template", "missing", "")
		return o
	}
	fs.StringVar(&o.pull, "pull", "always", "")
	fs.IntVar(&o.cpus, "cpus", 0, "")
	fs.StringVarP(&o.memory, "memory", "m", "", "")
	fs.String("skills", "readonly", "")
	if c.since(38) { // MEAS v0.38 S25
		fs.StringArrayVar(&o.deny, "deny-network", nil, "")
	}
	if c.since(39) { // DOC S5
		fs.StringArrayVarP(&o.env, "env", "e", nil, "")
		fs.StringArrayVar(&o.envFiles, "env-file", nil, "")
	}
	return o
}

func (c *call) create(args []string) (int, error) {
	if c.settings.Faults.CrashBeforeCreate {
		die(syscall.SIGKILL)
	}
	fs := c.flags("create")
	o := c.orderFlags(fs)
	fs.BoolVarP(&o.quiet, "quiet", "q", false, "")
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	atLeast := 2 // DOC S13
	if c.cli == sbx && c.since(42) {
		atLeast = 1 // REL S2: the workspace became optional
	}
	if err := c.count("create", args, atLeast, -1); err != nil {
		return 0, err
	}
	o.agent, o.workspaces = args[0], args[1:]
	r, err := c.make(*o)
	if err != nil {
		return 0, err
	}
	if c.settings.Faults.CrashAfterCreate {
		die(syscall.SIGKILL)
	}
	c.announce(r, o.quiet)
	return 0, nil
}

// announce prints what create prints: MEAS v0.23 S26, the first line also
// ISSUE #460. What is left of it with --quiet is ?.
func (c *call) announce(r record, quiet bool) {
	if quiet {
		c.print("%s\n", r.Name)
		return
	}
	c.print("✓ Created sandbox '%s'\n", r.Name)
	if r.primary() != "" {
		c.print("  Workspace: %s (direct mount)\n", r.primary())
	}
	c.print("  Agent: %s\n", r.Agent)
}

// make creates a running sandbox.
func (c *call) make(o order) (record, error) {
	r, err := c.draft(o)
	if err != nil {
		return record{}, err
	}
	if err := c.checkPolicy(); err != nil {
		return record{}, err
	}
	if c.lost() {
		return record{}, c.errLost()
	}
	unlock, err := c.store.lockSandbox(r.Name)
	if err != nil {
		return record{}, err
	}
	defer unlock()
	if _, ok, err := c.store.load(r.Name); err != nil {
		return record{}, err
	} else if ok {
		// MEAS v0.45.1 S21: the daemon answers 409 Conflict; the rest is ?.
		return record{}, c.fail("request failed: 409 Conflict: sandbox '%s' already exists", r.Name)
	}
	if err := c.build(&r); err != nil {
		return record{}, errors.Join(err, c.store.forget(r))
	}
	for _, pattern := range o.deny {
		if err := c.addRule(rule{Decision: "deny", Resources: []string{pattern}, AppliesTo: r.Name}); err != nil {
			return record{}, err
		}
	}
	if err := c.store.save(r); err != nil {
		return record{}, err
	}
	return r, c.ensureDaemon()
}

// build creates the parts of a sandbox.
func (c *call) build(r *record) error {
	if c.settings.Faults.KVM {
		// ? ISSUE #336 has the words up to "container" for other causes.
		return c.fail("request failed: 500 Internal Server Error: failed to run sandbox container: open /dev/kvm: no such file or directory")
	}
	if err := os.MkdirAll(c.store.path("homes", r.Name), 0o755); err != nil {
		return fmt.Errorf("making a home: %w", err)
	}
	return c.machine().create(r)
}

// draft checks an order and returns its record.
func (c *call) draft(o order) (record, error) {
	if !slices.Contains(c.agents(), o.agent) {
		return record{}, c.fail("unknown agent %q", o.agent) // ?
	}
	if o.name == "" { // DOC S3, S13
		o.name = o.agent
		if len(o.workspaces) > 0 {
			path, _ := workspace(o.workspaces[0])
			o.name += "-" + filepath.Base(path)
		}
	}
	if !c.validName(o.name) {
		return record{}, c.fail("invalid sandbox name %q", o.name) // ?
	}
	if err := c.checkWorkspaces(o.workspaces); err != nil {
		return record{}, err
	}
	if !slices.Contains([]string{"always", "missing", "never"}, o.pull) {
		return record{}, c.fail("invalid pull policy %q: use always, missing or never", o.pull) // ?
	}
	memory, err := c.memory(o.memory)
	if err != nil {
		return record{}, err
	}
	env, err := environment(o.envFiles, o.env)
	if err != nil {
		return record{}, c.fail("%v", err)
	}
	template, err := c.resolveTemplate(o)
	if err != nil {
		return record{}, err
	}
	now := time.Now()
	return record{
		Name: o.name, ID: uuid.NewString(), Agent: o.agent, Status: running, Workspaces: o.workspaces,
		Env: env, Template: template, CPUs: o.cpus, Memory: memory,
		CreatedAt: now, LastUsed: now, IdleSince: now,
	}, nil
}

func (c *call) checkWorkspaces(given []string) error {
	for _, w := range given {
		path, _ := workspace(w)
		if !filepath.IsAbs(path) {
			return c.fail("workspace %q is not an absolute path", path) // ? it may be resolved
		}
		if !exists(w) {
			return c.fail("workspace path does not exist: %s", path) // ?
		}
	}
	return nil
}

func (c *call) memory(given string) (int64, error) {
	if given == "" {
		return 0, nil
	}
	n, err := units.RAMInBytes(given)
	if err != nil {
		return 0, c.fail("invalid memory %q", given) // ?
	}
	if n < 512*units.MiB && c.since(43) { // REL 0.43; the words are ?
		return 0, c.fail("memory must be at least 512 MiB, not %s", given)
	}
	return n, nil
}

// agents are the agents of create (DOC S3, S13), without kits.
func (c *call) agents() []string {
	if c.cli == plugin {
		return []string{"cagent", "docker-agent", "claude", "codex", "copilot", "gemini", "kiro", "opencode", "shell"}
	}
	all := []string{
		"claude", "codex", "copilot", "cursor", "devin", "docker-agent", "cagent", "droid", "kiro", "opencode", "shell",
	}
	if !c.since(53) { // REL 0.53
		all = append(all, "gemini")
	}
	return all
}

// validName checks a name before it is a file's.
func (c *call) validName(name string) bool {
	if c.cli == plugin {
		// DOC S13 has the characters; how it begins is ?.
		return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`).MatchString(name)
	}
	if c.since(43) && strings.ContainsAny(name[max(0, len(name)-1):], "-.") { // REL 0.43
		return false
	}
	// DOC S3; CODE S20, S29: at most 63 characters.
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{1,62}$`).MatchString(name) && name != "default"
}

// checkPolicy rejects new sandboxes before there is a policy (DOC S11;
// MEAS v0.45.1 S24). On a terminal it asks; the words are ?.
func (c *call) checkPolicy() error {
	if c.cli == plugin || c.settings.PolicyInitialised {
		return nil
	}
	verb := "sbx policy init balanced"
	if !c.since(34) { // MEAS v0.34 S25
		verb = "sbx policy set-default balanced"
	}
	if in, _ := c.terminals(); !in || c.noInput {
		return c.fail("no network policy is set. Run '%s' first.", verb)
	}
	if err := c.confirm("No network policy is set. Use the balanced one? (y/N): ", verb); err != nil {
		return err
	}
	return c.initPolicy("balanced")
}

// environment reads env-files and -e arguments. Later ones win (DOC S5), and a
// name without a value is copied from the caller's environment.
func environment(files, args []string) ([]string, error) {
	var lines []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", file, err)
		}
		lines = append(lines, envLines(string(content))...)
	}
	return resolve(append(lines, args...)), nil
}

// envLines are the entries of an env-file.
func envLines(content string) []string {
	var entries []string
	for line := range strings.Lines(content) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			entries = append(entries, line)
		}
	}
	return entries
}

// resolve copies the values of bare names from the caller's environment.
func resolve(lines []string) []string {
	var env []string
	for _, line := range lines {
		if !strings.Contains(line, "=") {
			value, ok := os.LookupEnv(line)
			if !ok {
				continue // ? as "docker exec"
			}
			line += "=" + value
		}
		env = append(env, line)
	}
	return env
}
