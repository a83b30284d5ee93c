package sandboxcli

import (
	"io"
	"strings"
)

// login is the form for CI (DOC S9, S5b; REL 0.30). Any password will do.
func (c *call) login(args []string) (int, error) {
	fs := c.flags("login")
	user := fs.String("username", "", "")
	fromStdin := fs.Bool("password-stdin", false, "")
	if _, err := c.parse(fs, args); err != nil {
		return 0, err
	}
	if *user == "" || !*fromStdin {
		return 0, c.fail("this fake opens no browser: use --username and --password-stdin")
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
		// MEAS v0.45.1 S21: it restores the engine (unverified: sandboxes keep running).
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
