package sandboxcli

import (
	"fmt"
	"os"
	"strings"
)

// revision is the commit that versions show. Its form is MEAS v0.39 (ISSUE #491).
const revision = "3f0a8c1d9b7e5a2460c1f8e7d6b5a4938271605f"

// sbx runs a command line of sbx.
func (c *call) sbx(args []string) (int, error) {
	fs := c.flags("")
	fs.SetInterspersed(false)
	fs.BoolP("debug", "D", false, "")
	fs.String("app-name", "", "")
	// DOC S6 has it on the newest pages only; the first version is ?.
	if c.since(51) {
		fs.BoolVar(&c.noInput, "no-input", false, "")
	}
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if len(args) == 0 {
		return 0, c.fail("this fake has no TUI: name a command") // DOC: no subcommand opens a TUI
	}
	name, args := args[0], c.globals(args[1:], args[0])
	switch name {
	case "version":
		return c.version(args)
	case "login":
		return c.login(args)
	case "daemon":
		return c.daemonVerbs(args)
	case "diagnose":
		return c.diagnose(args)
	}
	verb, ok := map[string]func([]string) (int, error){
		"create": c.create, "run": c.runVerb, "exec": c.exec, "ls": c.ls, "list": c.ls, "stop": c.stopVerb, "rm": c.rm,
		"inspect": c.inspect, "template": c.template, "policy": c.policy, "secret": c.secret,
	}[name]
	if !ok || name == "inspect" && !c.since(35) { // MEAS v0.35 S25
		return 0, c.fail("unknown command %q for \"sbx\"", name) // ?
	}
	if err := c.begin(); err != nil {
		return 0, err
	}
	return verb(args)
}

// globals takes --no-input from behind the verb too, where the arguments are
// the CLI's own.
func (c *call) globals(args []string, verb string) []string {
	if !c.since(51) {
		return args
	}
	var kept []string
	for i, arg := range args {
		if arg == "--" || verb == "exec" && !strings.HasPrefix(arg, "-") {
			return append(kept, args[i:]...)
		}
		if arg == "--no-input" {
			c.noInput = true
			continue
		}
		kept = append(kept, arg)
	}
	return kept
}

func (c *call) version(args []string) (int, error) {
	fs := c.flags("version")
	asJSON := false
	if c.cli == sbx && c.since(42) { // REL S2
		fs.BoolVar(&asJSON, "json", false, "")
	}
	if _, err := c.parse(fs, args); err != nil {
		return 0, err
	}
	switch {
	case c.cli == plugin:
		c.print("github.com/docker/sandboxes/cli-plugin v0.13.0 %s\n", revision) // DOC S13
	case asJSON: // the shape is ?
		return 0, c.printJSON(map[string]string{"version": "v" + c.bareVersion(), "revision": revision})
	case c.since(30):
		c.print("sbx version: v%s %s\n", c.bareVersion(), revision) // ISSUE #491 (v0.39)
	default: // MEAS v0.24 S26; the revision's place is ?
		c.print("Client Version:  v%s %s\nServer Version:  Unavailable\n", c.bareVersion(), revision)
	}
	return 0, nil
}

func (c *call) bareVersion() string { return strings.TrimPrefix(c.settings.Version, "v") }

// ensureServing starts the daemon of sbx if it is down. Most commands do
// (ISSUE #201, CODE S22).
func (c *call) ensureServing() error {
	if c.settings.Faults.NoDaemon {
		// ISSUE #347
		return c.fail("ensure daemon: daemon failed to start properly after 10 retries, check logs at: %s", c.daemonLog())
	}
	if c.settings.DaemonUp {
		return nil
	}
	out := c.stderr // ISSUE #201: stdout on Windows, stderr on macOS
	if c.settings.Faults.StartLinesStdout {
		out = c.stdout
	}
	const lines = "Starting sandboxd daemon...\nDaemon started (PID: %d, socket: %s)\nLogs: %s\n"
	if _, err := fmt.Fprintf(out, lines, os.Getpid(), c.daemonSocket(), c.daemonLog()); err != nil {
		return err
	}
	c.settings.DaemonUp = true
	return Update(c.dir, func(s *Settings) { s.DaemonUp = true })
}

func (c *call) daemonSocket() string { return c.store.path("sandboxd.sock") }
func (c *call) daemonLog() string    { return c.store.path("sandboxd.log") }

// checkLogin refuses to work when logged out, as every command does, even
// offline (DOC S9).
func (c *call) checkLogin() error {
	if c.settings.Faults.LoginLapseAfter != nil {
		err := Update(c.dir, func(s *Settings) {
			switch left := s.Faults.LoginLapseAfter; {
			case left == nil:
			case *left <= 0:
				s.LoggedIn, s.Faults.LoginLapseAfter = false, nil
			default:
				*left--
			}
			c.settings = *s
		})
		if err != nil {
			return err
		}
	}
	if !c.settings.LoggedIn {
		// DOC S9 has the first sentence; the rest is ?.
		return c.fail("You are not authenticated to Docker. Run 'sbx login' to sign in.")
	}
	return nil
}
