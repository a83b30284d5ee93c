package sandboxcli

import (
	"fmt"
)

// metadata is the metadata for the Docker CLI. The version is the one
// that Docker Desktop 4.80 still lists (CODE S20).
func (c *call) metadata() (int, error) {
	c.print("%s\n", `{"SchemaVersion":"0.1.0","Vendor":"Docker Inc.","Version":"v0.13.0","ShortDescription":"Docker Sandbox"}`)
	return 0, nil
}

// plugin runs a command line that the Docker CLI hands over: its own global
// flags, "sandbox", and the rest.
func (c *call) plugin(args []string) (int, error) {
	args, err := c.dockerFlags(args)
	if err != nil {
		return 0, err
	}
	if len(args) == 0 || args[0] != "sandbox" {
		return 0, c.fail("this is a plugin: call it as \"docker sandbox\"")
	}
	if c.settings.Faults.Removed {
		return c.removed()
	}
	fs := c.flags("")
	fs.SetInterspersed(false)
	fs.BoolP("debug", "D", false, "") // DOC S13
	fs.String("socket", "", "")
	if args, err = c.parse(fs, args[1:]); err != nil {
		return 0, err
	}
	name, args := first(args)
	verbs := map[string]func([]string) (int, error){
		"create": c.create, "run": c.runVerb, "exec": c.exec, "ls": c.ls, "list": c.ls, "stop": c.stopVerb, "rm": c.rm,
		"save": c.saveVerb, "reset": c.reset, "version": c.version, "network": c.network,
	}
	if c.settings.Faults.Legacy { // DOC S16: 4.50 to 4.57
		verbs = map[string]func([]string) (int, error){
			"ls": c.legacyLs, "inspect": c.legacyInspect, "rm": c.rm, "version": c.version, "run": c.legacyRun,
		}
	}
	verb, ok := verbs[name]
	if !ok { // ? As other plugins of the Docker CLI.
		return 0, c.fail("docker: unknown command: docker sandbox %s\n\nRun 'docker sandbox --help' for more information", name)
	}
	if name != "version" {
		if err := c.begin(); err != nil {
			return 0, err
		}
	}
	return verb(args)
}

// dockerFlags skips the Docker CLI's global flags.
func (c *call) dockerFlags(args []string) ([]string, error) {
	fs := c.flags("")
	fs.SetInterspersed(false)
	for name, short := range map[string]string{"config": "", "context": "c", "log-level": "l", "tlscacert": "", "tlscert": "", "tlskey": ""} {
		fs.StringP(name, short, "", "")
	}
	fs.StringArrayP("host", "H", nil, "")
	fs.BoolP("debug", "D", false, "")
	fs.Bool("tls", false, "")
	fs.Bool("tlsverify", false, "")
	return c.parse(fs, args)
}

// removed is Docker Desktop 4.80 (CODE S20, REL S21: a notice and nothing
// else). The words, the stream and the exit code are ?.
func (c *call) removed() (int, error) {
	out := c.stdout
	if c.settings.Faults.RemovedStderr {
		out = c.stderr
	}
	_, err := fmt.Fprintln(out, `The "docker sandbox" command has been removed from Docker Desktop.
Docker Sandboxes is now a standalone product: see https://www.docker.com/products/docker-sandboxes/`)
	return c.settings.Faults.RemovedExit, err
}

// legacyLs has no --json (DOC S16; the columns are ?).
func (c *call) legacyLs(args []string) (int, error) {
	fs := c.flags("ls")
	quiet := fs.BoolP("quiet", "q", false, "")
	fs.Bool("no-trunc", false, "")
	if _, err := c.parse(fs, args); err != nil {
		return 0, err
	}
	if *quiet {
		return c.ls([]string{"--quiet"})
	}
	return c.ls(nil)
}

// legacyInspect prints an array (DOC S16; DOC index page).
func (c *call) legacyInspect(args []string) (int, error) {
	args, err := c.parse(c.flags("inspect"), args)
	if err != nil {
		return 0, err
	}
	if err := c.count("inspect", args, 1, -1); err != nil {
		return 0, err
	}
	found := []any{}
	for _, name := range args {
		r, ok, err := c.find(name)
		if err != nil {
			return 0, err
		}
		if !ok {
			return 0, c.errNotFound(name)
		}
		found = append(found, map[string]any{
			"id": r.ID, "name": r.Name, "created_at": r.CreatedAt.UTC(), "status": r.Status, "template": r.Template,
			"labels": map[string]string{
				"com.docker.sandbox.agent": r.Agent, "com.docker.sandbox.workingDirectory": r.primary(),
			},
		})
	}
	return 0, c.printJSON(found)
}

// legacyRun has no names of sandboxes. The fake does not run it.
func (c *call) legacyRun([]string) (int, error) {
	return 0, c.fail("this fake does not run sandboxes of Docker Desktop 4.50")
}

// saveVerb is "save SANDBOX TAG" (DOC S13).
func (c *call) saveVerb(args []string) (int, error) { return c.save("save", args) }

// reset removes everything. Whether the plugin has -f/--force is ?.
func (c *call) reset(args []string) (int, error) {
	fs := c.flags("reset")
	force := fs.BoolP("force", "f", false, "")
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if err := c.count("reset", args, 0, 0); err != nil {
		return 0, err
	}
	if !*force {
		if err := c.confirm("Remove all sandboxes? (y/N): ", "docker sandbox reset --force"); err != nil { // ?
			return 0, err
		}
	}
	names, err := c.names()
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if err := c.remove(name); err != nil {
			return 0, err
		}
	}
	return 0, nil
}
