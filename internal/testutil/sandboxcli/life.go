package sandboxcli

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/moby/term"
)

// machine is what sandboxes run on.
type machine interface {
	// create creates a running sandbox.
	create(r *record) error
	start(r record) error
	// stop ends all processes and keeps the files.
	stop(r record) error
	remove(r record) error
	// exec runs a command and returns its exit code.
	exec(r record, g guest) (int, error)
}

func (c *call) machine() machine {
	if c.settings.Mode == ModeContainer {
		return containers{c}
	}
	return processes{c}
}

func exists(path string) bool {
	path, _ = workspace(path)
	_, err := os.Stat(path)
	return err == nil
}

// find looks for a sandbox whose name a user gave.
func (c *call) find(name string) (record, bool, error) {
	if !c.validName(name) {
		return record{}, false, nil // what never existed, and may not be a file's name
	}
	return c.store.load(name)
}

// errNotFound is what other verbs than exec say of an unknown sandbox
// (MEAS v0.23 S26; later versions ?).
func (c *call) errNotFound(name string) error { return c.fail("sandbox '%s' not found", name) }

// wake starts a sandbox unless it runs (DOC S8; MEAS v0.45.1 S21, S24; plugin:
// ISSUE desktop-feedback #232). It is called with the sandbox locked.
func (c *call) wake(r *record) error {
	r.LastUsed = time.Now()
	if r.Status != running {
		if err := c.machine().start(*r); err != nil {
			return err
		}
		r.Status, r.IdleSince = running, r.LastUsed
	}
	if err := c.store.save(*r); err != nil {
		return err
	}
	return c.ensureDaemon()
}

// halt stops a sandbox that runs. It is called with the sandbox locked.
func (c *call) halt(r record) error {
	if r.Status != running {
		return nil
	}
	if err := c.machine().stop(r); err != nil {
		return err
	}
	r.Status, r.Pinned = stopped, false
	return c.store.save(r)
}

// remove removes a sandbox, if it exists.
func (c *call) remove(name string) error {
	unlock, err := c.store.lockSandbox(name)
	if err != nil {
		return err
	}
	defer unlock()
	r, ok, err := c.store.load(name)
	if err != nil || !ok {
		return err
	}
	if err := c.machine().remove(r); err != nil {
		return err
	}
	if err := c.forgetScoped(name); err != nil {
		return err
	}
	return c.store.forget(r)
}

func (c *call) stopVerb(args []string) (int, error) {
	args, err := c.parse(c.flags("stop"), args)
	if err != nil {
		return 0, err
	}
	if err := c.count("stop", args, 1, -1); err != nil {
		return 0, err
	}
	if c.lost() {
		return 0, c.errLost()
	}
	for _, name := range args {
		if err := c.stopOne(name); err != nil {
			return 0, err
		}
		c.print("✓ Stopped sandbox '%s'\n", name) // ?
	}
	return 0, nil
}

func (c *call) stopOne(name string) error {
	if !c.validName(name) {
		return c.errNotFound(name)
	}
	return c.withLocked(name, c.errNotFound(name), c.halt)
}

// withLocked calls do with a sandbox's record under its lock. Without the sandbox it
// returns missing.
func (c *call) withLocked(name string, missing error, do func(r record) error) error {
	unlock, err := c.store.lockSandbox(name)
	if err != nil {
		return err
	}
	defer unlock()
	r, ok, err := c.store.load(name)
	if err != nil {
		return err
	}
	if !ok {
		return missing
	}
	return do(r)
}

func (c *call) rm(args []string) (int, error) {
	fs := c.flags("rm")
	force, all := true, false // that the plugin does not ask is ?
	if c.cli == sbx {
		fs.BoolVarP(&force, "force", "f", false, "") // DOC S3
		if c.since(37) {                             // MEAS S25
			fs.BoolVar(&all, "all", false, "")
		}
	}
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if c.lost() {
		return 0, c.errLost()
	}
	if all {
		if args, err = c.names(); err != nil {
			return 0, err
		}
	} else if err := c.count("rm", args, 1, -1); err != nil {
		return 0, err
	}
	for _, name := range args {
		if err := c.rmOne(name, force); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func (c *call) names() ([]string, error) {
	all, err := c.store.list()
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	return names, err
}

func (c *call) rmOne(name string, force bool) error {
	if _, ok, err := c.find(name); err != nil {
		return err
	} else if !ok {
		return c.errNotFound(name)
	}
	if !force {
		// DOC S3: "sessions" above zero make rm refuse; the words are ?.
		if n, _, err := c.store.sessions(name); err != nil {
			return err
		} else if n > 0 {
			return c.fail("sandbox '%s' is in use (%d active sessions); use --force to remove it anyway", name, n)
		}
		// MEAS v0.37 S29; that it is on stderr is ?.
		if err := c.confirm(fmt.Sprintf("Remove sandbox '%s'? This cannot be undone. (y/N): ", name), "sbx rm --force "+name); err != nil {
			return err
		}
	}
	if err := c.remove(name); err != nil {
		return err
	}
	c.print("✓ Removed sandbox '%s'\n", name) // ?
	return nil
}

// confirm prompts. With --no-input it fails and names the command that
// needs no answer (DOC S6).
func (c *call) confirm(question, instead string) error {
	if c.noInput {
		return c.fail("confirmation is needed, and --no-input forbids to ask; run: %s", instead) // ?
	}
	c.warn("%s", question)
	answer, err := bufio.NewReader(c.stdin).ReadString('\n')
	if err == nil || answer != "" {
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return nil
		}
	}
	c.warn("\n")
	return c.fail("cancelled") // DOC S5b: not zero; the word is ?
}

// terminals reports whether stdin, and stdout too, are terminals.
func (c *call) terminals() (in, both bool) {
	in = term.IsTerminal(c.stdin.Fd())
	return in, in && term.IsTerminal(c.stdout.Fd())
}
