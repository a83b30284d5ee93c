package sandboxcli

import (
	"path/filepath"
	"strings"

	"github.com/moby/term"
	"github.com/spf13/pflag"
)

// guest is a command for a sandbox, with what it needs from the client.
type guest struct {
	args        []string
	env         []string // the whole of it
	dir         string   // as the guest sees it
	user        string   // "" is the agent
	privileged  bool
	stdin       bool
	tty         bool
	detached    bool
	detachKeys  []byte
	interactive bool // counts against the plugin's idle stop
	hangAtEnd   bool
}

// execFlags are DOC S8 and S13, MEAS v0.45.1 S21.
type execFlags struct {
	detach, stdin, tty, privileged bool
	env, envFiles                  []string
	user, dir, detachKeys          string
}

func readExec(fs *pflag.FlagSet) *execFlags {
	o := &execFlags{}
	fs.SetInterspersed(false) // DOC S7: flags come before SANDBOX
	fs.BoolVarP(&o.detach, "detach", "d", false, "")
	fs.BoolVarP(&o.stdin, "interactive", "i", false, "")
	fs.BoolVarP(&o.tty, "tty", "t", false, "")
	fs.BoolVar(&o.privileged, "privileged", false, "")
	fs.StringArrayVarP(&o.env, "env", "e", nil, "")
	fs.StringArrayVar(&o.envFiles, "env-file", nil, "")
	fs.StringVarP(&o.user, "user", "u", "", "")
	fs.StringVarP(&o.dir, "workdir", "w", "", "")
	fs.StringVar(&o.detachKeys, "detach-keys", "ctrl-p,ctrl-q", "")
	return o
}

// exec runs a command in a sandbox.
func (c *call) exec(args []string) (int, error) {
	fs := c.flags("exec")
	o := readExec(fs)
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if err := c.count("exec", args, 2, -1); err != nil {
		return 0, err
	}
	name, command := args[0], args[1:]
	if command[0] == "--" { // DOC S7, CODE S23, S29
		command = command[1:]
	}
	if err := c.count("exec", command, 1, -1); err != nil {
		return 0, err
	}
	if c.cli == sbx && o.detach && c.since(45) {
		return 0, c.fail("--detach is not supported for exec") // MEAS v0.45.1 S21; DOC S8, S5
	}
	if c.lost() {
		return 0, c.errLost()
	}
	for i, arg := range command {
		if arg == "" && c.cli == sbx {
			// MEAS v0.45.1 S21 has the words from "400" on. N counts from 0: ?.
			return 0, c.fail("request failed: 400 Bad Request: cmd element %d is empty", i)
		}
	}
	if _, ok, err := c.find(name); err != nil {
		return 0, err
	} else if !ok {
		return 0, c.errNoSandbox(name)
	}
	g, err := c.guest(*o, command)
	if err != nil {
		return 0, err
	}
	return c.runGuest(name, g)
}

// errNoSandbox is the error of exec for an unknown sandbox: MEAS v0.45.1 S21, and
// ISSUE #504 for exit code 1. The plugin's words are ?.
func (c *call) errNoSandbox(name string) error {
	if c.cli == plugin {
		return c.errNotFound(name)
	}
	return c.fail("no sandbox named '%s'\n\nTo create one:\n  sbx create AGENT WORKSPACE", name)
}

func (c *call) guest(o execFlags, command []string) (guest, error) {
	in, _ := c.terminals()
	if o.stdin && o.tty && !in && !o.detach {
		// ? As "docker exec".
		return guest{}, c.fail("the input device is not a TTY")
	}
	keys, err := term.ToBytes(o.detachKeys)
	if err != nil {
		return guest{}, c.fail("invalid detach keys (%s) provided", o.detachKeys)
	}
	env, err := environment(o.envFiles, o.env)
	if err != nil {
		return guest{}, c.fail("%v", err)
	}
	return guest{
		args: command, env: env, dir: o.dir, user: o.user, privileged: o.privileged,
		// MEAS v0.45.1 S21: stdin is forwarded without -i too. The plugin has the
		// flags of "docker exec" (DOC S13), so its meaning of -i as well: ?.
		stdin: (o.stdin || c.cli == sbx) && !o.detach,
		// ISSUE #505: before it was refused, a detached exec of sbx hung.
		detached: o.detach && c.cli == plugin, hangAtEnd: o.detach && c.cli == sbx,
		tty: o.tty, detachKeys: keys, interactive: o.tty && !o.detach,
	}, nil
}

// runGuest runs a command in a sandbox that it starts if need be, within a
// session.
func (c *call) runGuest(name string, g guest) (int, error) {
	unlock, err := c.store.lockSandbox(name)
	if err != nil {
		return 0, err
	}
	r, ok, err := c.store.load(name)
	if err == nil && !ok {
		err = c.errNoSandbox(name)
	}
	if err == nil {
		if g.interactive {
			r.IdleSince = r.LastUsed
		}
		err = c.wake(&r)
	}
	var s session
	if err == nil && !g.detached {
		s, err = c.store.beginSession(name, g.interactive, g.args)
	}
	unlock()
	if err != nil {
		return 0, err
	}
	if c.settings.Faults.HangExec {
		return hang()
	}
	c.complete(&r, &g)
	code, err := c.machine().exec(r, g)
	if g.hangAtEnd {
		return hang()
	}
	if !g.detached {
		if ended := c.store.endSession(name, s); err == nil {
			err = ended
		}
	}
	return code, err
}

// complete adds the defaults of every command.
func (c *call) complete(r *record, g *guest) {
	var given []string
	if c.cli == sbx {
		given = append(given, "SSH_AUTH_SOCK=/run/ssh-agent.sock") // seen: contract 9.1
	} else {
		given = append(given, "SANDBOX_VM_ID="+r.ID) // 1P S17; what its value is: ?
	}
	given = append(given, r.Env...)
	if g.tty {
		given = append(given, "TERM=xterm")
	}
	g.env = append(given, g.env...)
	if g.dir == "" {
		g.dir = r.primary()
	}
}

// errDetached ends a client that detaches. The exit code 1 and the words are ?: as
// "docker exec".
func (c *call) errDetached() error { return &failure{"read escape sequence", 1} }

// errOCI is the error of a command that cannot be started: on stdout, with CRLF, and exit
// code 127 (MEAS v0.45.1 S21).
func (c *call) errOCI(reason string) (int, error) {
	c.print("OCI runtime exec failed: exec failed: unable to start container process: %s: unknown\r\n", reason)
	return 127, nil
}

// pathOf finds a program as the guest would.
func pathOf(program, path string, usable func(string) bool) (string, bool) {
	if strings.Contains(program, "/") {
		return program, usable(program)
	}
	for _, dir := range filepath.SplitList(path) {
		if candidate := filepath.Join(dir, program); dir != "" && usable(candidate) {
			return candidate, true
		}
	}
	return "", false
}
