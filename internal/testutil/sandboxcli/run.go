package sandboxcli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/client"
	"github.com/spf13/pflag"
)

// runVerb creates a sandbox if it is missing, starts it and opens the agent's
// session, or prints its ID with -d (DOC S3, S13).
func (c *call) runVerb(args []string) (int, error) {
	fs := c.flags("run")
	o := c.orderFlags(fs)
	detached := fs.BoolP("detached", "d", false, "")
	removeAfter := new(bool)
	if c.cli == sbx && c.since(43) { // between 0.43 and 0.51: inferred
		removeAfter = fs.Bool("rm", false, "")
	}
	args, rest, err := c.split(fs, args)
	if err != nil {
		return 0, err
	}
	r, made, err := c.runTarget(*o, args)
	if err != nil {
		return 0, err
	}
	if *detached {
		// REL 0.47; that a new one is not pinned, and how long it lasts, is ?.
		if err := c.start(r.Name, c.cli == sbx && c.since(47) && !made); err != nil {
			return 0, err
		}
		c.print("%s\n", r.ID)
		return 0, nil
	}
	g, err := c.agentSession(r, *o, rest, made)
	if err != nil {
		return 0, err
	}
	code, err := c.runGuest(r.Name, g)
	if *removeAfter && err == nil {
		err = c.remove(r.Name)
	}
	return code, err
}

// split parses flags and separates the arguments after "--".
func (c *call) split(fs *pflag.FlagSet, args []string) (own, rest []string, err error) {
	own, err = c.parse(fs, args)
	if err != nil {
		return nil, nil, err
	}
	if dash := fs.ArgsLenAtDash(); dash >= 0 {
		return own[:dash], own[dash:], nil
	}
	return own, nil, nil
}

// runTarget finds or creates the sandbox of run.
func (c *call) runTarget(o order, args []string) (r record, made bool, err error) {
	if len(args) == 0 && o.name == "" {
		return record{}, false, c.fail("name an agent or a sandbox") // ?
	}
	if len(args) > 0 && !slices.Contains(c.agents(), args[0]) {
		if c.cli == sbx && c.since(33) { // CODE S25, S27; the words are ?
			c.warn("positional sandbox name is deprecated, use --name %s\n", args[0])
		}
		o.name = args[0]
	} else if len(args) > 0 {
		o.agent, o.workspaces = args[0], args[1:]
		if len(o.workspaces) == 0 { // DOC S3, S13
			here, err := os.Getwd()
			if err != nil {
				return record{}, false, err
			}
			o.workspaces = []string{here}
		}
		if o.name == "" {
			path, _ := workspace(o.workspaces[0])
			o.name = o.agent + "-" + filepath.Base(path)
		}
	}
	if c.lost() {
		return record{}, false, c.errLost()
	}
	r, ok, err := c.find(o.name)
	if err != nil || ok {
		return r, false, err
	}
	if o.agent == "" {
		return record{}, false, c.errNoSandbox(o.name)
	}
	r, err = c.make(o)
	return r, true, err
}

func (c *call) start(name string, pin bool) error {
	return c.withLocked(name, c.errNoSandbox(name), func(r record) error {
		r.Pinned = r.Pinned || pin
		return c.wake(&r)
	})
}

// agentSession is the command that run opens. Its arguments are DOC S12.
func (c *call) agentSession(r record, o order, rest []string, made bool) (guest, error) {
	var command, own []string
	switch r.Agent {
	case "shell": // images have a bash (contract 9.3), but an image of a test may not
		command = []string{"sh", "-c", `command -v bash >/dev/null && exec bash "$@"; exec sh "$@"`, "sh"}
		own = []string{"-l"}
	case "claude":
		command, own = []string{"claude"}, []string{"--dangerously-skip-permissions"}
	default:
		command = []string{r.Agent}
	}
	// A bare word took the place of the image's own arguments before 0.53 (S2, S12).
	if len(rest) == 0 || strings.HasPrefix(rest[0], "-") || c.cli == sbx && c.since(53) {
		command = append(command, own...)
	}
	in, both := c.terminals()
	g, err := c.guest(execFlags{stdin: in, tty: both, detachKeys: "ctrl-p,ctrl-q"}, append(command, rest...))
	if err != nil {
		return guest{}, err
	}
	g.stdin = true
	if !made { // DOC S3: what was stored at create counts too
		if g.env, err = environment(o.envFiles, o.env); err != nil {
			return guest{}, c.fail("%v", err)
		}
	}
	return g, nil
}

// save creates an image of a sandbox (DOC S3, S13).
func (c *call) save(verb string, args []string) (int, error) {
	fs := c.flags(verb)
	output := fs.StringP("output", "o", "", "")
	args, err := c.parse(fs, args)
	if err != nil {
		return 0, err
	}
	if err := c.count(verb, args, 2, 2); err != nil {
		return 0, err
	}
	r, ok, err := c.find(args[0])
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, c.errNotFound(args[0])
	}
	if c.settings.Mode != ModeContainer {
		return 0, c.fail("this fake makes images in %q mode only", ModeContainer)
	}
	if c.cli == sbx && r.Status == running { // DOC S3: it refuses; the words are ?
		return 0, c.fail("sandbox '%s' is running; stop it first", r.Name)
	}
	full, err := normal(args[1])
	if err != nil {
		return 0, c.fail("invalid tag %q: %v", args[1], err)
	}
	return 0, c.commit(r, full, *output)
}

func (c *call) commit(r record, tag, output string) (err error) {
	api, err := c.engine()
	if err != nil {
		return err
	}
	defer func() { _ = api.Close() }()
	made, err := api.ContainerCommit(c.ctx, r.Container, client.ContainerCommitOptions{Reference: tag})
	if err != nil {
		return fmt.Errorf("saving sandbox %q: %w", r.Name, err)
	}
	if c.cli == sbx {
		image := loaded{Reference: tag, Digest: strings.TrimPrefix(made.ID, "sha256:"), Image: made.ID, CreatedAt: r.LastUsed}
		if err := c.register([]loaded{image}); err != nil {
			return err
		}
	}
	if output == "" {
		return nil
	}
	archive, err := api.ImageSave(c.ctx, []string{tag})
	if err != nil {
		return fmt.Errorf("saving sandbox %q: %w", r.Name, err)
	}
	defer func() { _ = archive.Close() }()
	f, err := os.Create(output)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.ReadFrom(archive)
	return err
}
