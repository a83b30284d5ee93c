package double

import (
	"io"
	"slices"
	"strings"
)

// secret is that there is a secret. Its value is not kept.
type secret struct {
	Scope string `json:"scope"` // a sandbox, or "global"
	Type  string `json:"type"`
	Name  string `json:"name"`
	Value string `json:"secret"` // masked
}

const secretsFile = "secrets.json"

func (c *call) secrets() ([]secret, error) {
	secrets := []secret{}
	_, err := c.store.readJSON(&secrets, secretsFile)
	return secrets, err
}

func (c *call) changeSecrets(change func([]secret) []secret) error {
	unlock, err := c.store.lock()
	if err != nil {
		return err
	}
	defer unlock()
	secrets, err := c.secrets()
	if err != nil {
		return err
	}
	return c.store.writeJSON(change(secrets), secretsFile)
}

// secret keeps track of secrets (DOC S7). Nothing is injected anywhere.
func (c *call) secret(args []string) (int, error) {
	verb, args := first(args)
	switch verb {
	case "set":
		return c.secretSet(args)
	case "ls":
		return c.secretLs(args)
	case "rm":
		return c.secretRm(args)
	}
	return 0, c.fail("unknown command %q for \"sbx secret\"", verb)
}

func (c *call) secretSet(args []string) (int, error) {
	fs := c.flags("secret set")
	scope := fs.String("sandbox", "global", "") // MEAS v0.38 S25: global by default
	token := fs.StringP("token", "t", "", "")
	command := fs.String("command", "", "")
	ref := fs.String("ref", "", "")
	global := fs.BoolP("global", "g", false, "")
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if err := c.count("secret set", args, 1, 1); err != nil {
		return 0, err
	}
	if *global && c.since(38) {
		c.print("Flag --global has been deprecated, secrets are global by default\n") // MEAS v0.38 S25, on stdout
	}
	if *token == "" && *command == "" && *ref == "" {
		if in, _ := c.terminals(); in && c.noInput {
			return 0, c.fail("a value is needed, and --no-input forbids to ask; run: sbx secret set %s --token VALUE", args[0])
		}
		value, err := io.ReadAll(c.stdin) // ? that it reads all of stdin
		if err != nil {
			return 0, err
		}
		if strings.TrimSpace(string(value)) == "" {
			return 0, c.fail("no value for the secret %q", args[0])
		}
	}
	entry := secret{Scope: *scope, Type: "service", Name: args[0], Value: "****"}
	return 0, c.changeSecrets(func(all []secret) []secret {
		all = slices.DeleteFunc(all, func(s secret) bool { return s.Scope == entry.Scope && s.Name == entry.Name })
		return append(all, entry)
	})
}

func (c *call) secretLs(args []string) (int, error) {
	fs := c.flags("secret ls")
	asJSON := new(bool)
	if c.since(42) { // REL S2
		asJSON = fs.Bool("json", false, "")
	}
	sandbox := fs.String("sandbox", "", "")
	service := fs.String("service", "", "")
	if _, err := c.parse(fs, args); err != nil {
		return 0, err
	}
	secrets, err := c.secrets()
	if err != nil {
		return 0, err
	}
	secrets = slices.DeleteFunc(secrets, func(s secret) bool {
		return *sandbox != "" && s.Scope != *sandbox && s.Scope != "global" || *service != "" && s.Name != *service
	})
	if *asJSON { // the shape is ?
		return 0, c.printJSON(map[string]any{"secrets": secrets})
	}
	c.print("SCOPE TYPE NAME SECRET\n") // CODE S23b; the spacing is ?
	for _, s := range secrets {
		c.print("%s %s %s %s\n", s.Scope, s.Type, s.Name, s.Value)
	}
	return 0, nil
}

func (c *call) secretRm(args []string) (int, error) {
	fs := c.flags("secret rm")
	scope := fs.String("sandbox", "global", "")
	force := fs.BoolP("force", "f", false, "")
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if err := c.count("secret rm", args, 1, 1); err != nil {
		return 0, err
	}
	if !*force {
		if err := c.confirm("Remove secret '"+args[0]+"'? (y/N): ", "sbx secret rm --force "+args[0]); err != nil {
			if !c.since(42) { // MEAS v0.38 S23b: exit 0; since when it is an error is ?
				c.print("Cancelled\n")
				return 0, nil
			}
			return 0, err
		}
	}
	removed := false
	err = c.changeSecrets(func(all []secret) []secret {
		return slices.DeleteFunc(all, func(s secret) bool {
			hit := s.Name == args[0] && s.Scope == *scope
			removed = removed || hit
			return hit
		})
	})
	if err == nil && !removed {
		err = c.fail("secret '%s' not found", args[0]) // ?
	}
	return 0, err
}

// login is the form for CI (DOC S9, S5b; REL 0.30). Any password will do.
func (c *call) login(args []string) (int, error) {
	fs := c.flags("login")
	user := fs.String("username", "", "")
	fromStdin := fs.Bool("password-stdin", false, "")
	if _, err := c.parse(fs, args); err != nil {
		return 0, err
	}
	if *user == "" || !*fromStdin {
		return 0, c.fail("this test double opens no browser: use --username and --password-stdin")
	}
	password, err := io.ReadAll(c.stdin)
	if err != nil {
		return 0, err
	}
	if strings.TrimSpace(string(password)) == "" {
		return 0, c.fail("password is empty") // ?
	}
	c.print("Login succeeded\n") // ?
	return 0, Update(c.dir, func(s *Settings) { s.LoggedIn = true })
}

// daemonVerbs are "daemon status|start|stop|restart" (DOC). They need no login: ?.
func (c *call) daemonVerbs(args []string) (int, error) {
	verb, args := first(args)
	fs := c.flags("daemon " + verb)
	asJSON := new(bool)
	switch verb {
	case "status":
		asJSON = fs.Bool("json", false, "")
	case "start":
		fs.BoolP("detach", "d", false, "")
	}
	if _, err := c.parse(fs, args); err != nil {
		return 0, err
	}
	switch verb {
	case "status":
		return 0, c.daemonStatus(*asJSON)
	case "start":
		return 0, c.ensureServing() // the real one stays in the foreground without -d
	case "stop":
		return 0, c.daemonStop()
	case "restart":
		if !c.since(38) { // MEAS v0.38 S25
			break
		}
		if c.settings.Faults.NoDaemon {
			return 0, c.ensureServing()
		}
		// MEAS v0.45.1 S21: it mends a lost engine. That sandboxes go on is ?.
		return 0, Update(c.dir, func(s *Settings) { s.DaemonUp, s.EngineUp = true, true })
	}
	return 0, c.fail("unknown command %q for \"sbx daemon\"", verb)
}

// daemonStatus exits with 0 in both states (ISSUE #283).
func (c *call) daemonStatus(asJSON bool) error {
	up := c.settings.DaemonUp && !c.settings.Faults.NoDaemon
	status, note := "stopped", " (not connected)"
	if up {
		status, note = "running", "" // ? the plain form of a daemon that runs
	}
	if asJSON {
		return c.printJSON(map[string]string{"status": status, "socket": c.daemonSocket()})
	}
	c.print("Status: %s\nSocket: %s%s\n", status, c.daemonSocket(), note)
	return nil
}

// daemonStop stops the sandboxes too: ?.
func (c *call) daemonStop() error {
	names, err := c.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.stopOne(name); err != nil {
			return err
		}
	}
	return Update(c.dir, func(s *Settings) { s.DaemonUp = false })
}

// check is a check of diagnose (ISSUE #413, CODE S23).
type check struct {
	Name    string `json:"name"`
	Status  string `json:"status"`
	Message string `json:"message"`
	Detail  string `json:"detail"`
	Hint    string `json:"hint"`
}

// diagnose checks the installation. It needs neither login nor daemon (?), and
// does not see a lost engine (MEAS v0.45.1 S21).
func (c *call) diagnose(args []string) (int, error) {
	fs := c.flags("diagnose")
	output := fs.StringP("output", "o", "", "")
	if _, err := c.parse(fs, args); err != nil {
		return 0, err
	}
	if *output == "json" && !c.since(38) { // MEAS v0.38 S25
		return 0, c.fail("unknown flag: --output")
	}
	checks := c.checks()
	summary := map[string]int{"pass": 0, "warn": 0, "fail": 0, "skip": 0}
	for _, k := range checks {
		summary[k.Status]++
		if *output != "json" {
			c.print("%s: %s (%s)\n", k.Name, k.Status, k.Message) // ?
		}
	}
	if *output != "json" {
		return 0, nil
	}
	// The exit code with failed checks is ?.
	return 0, c.printJSON(map[string]any{"version": "1.0", "checks": checks, "summary": summary})
}

func (c *call) checks() []check {
	checks := []check{}
	for _, name := range []string{
		"CLI binary", "Binary version", "Daemon", "Daemon diagnostics", "Version match", "Storage directories",
		"Directory permissions", "Socket", "Authentication",
	} {
		k := check{Name: name, Status: "pass", Message: "ok"} // the messages are ?
		down := !c.settings.DaemonUp || c.settings.Faults.NoDaemon
		switch {
		case name == "Daemon" && c.settings.Faults.NoDaemon:
			k = check{name, "fail", "daemon does not start", "see " + c.daemonLog(), "Run 'sbx daemon start'"}
		case (name == "Daemon" || name == "Socket") && down:
			k.Status, k.Message = "warn", "daemon is not running"
		case (name == "Daemon diagnostics" || name == "Version match") && down:
			k.Status, k.Message = "skip", "daemon is not running"
		case name == "Authentication" && !c.settings.LoggedIn:
			k = check{name, "fail", "You are not authenticated to Docker", "", "Run 'sbx login'"}
		}
		checks = append(checks, k)
	}
	return checks
}
