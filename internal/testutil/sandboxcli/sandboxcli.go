// Package sandboxcli is a fake of two closed CLIs that keep agents in
// microVMs, sbx and "docker sandbox", for machines where neither can run. It
// really runs what it is given: on the host, or in containers.
//
// What is known of the CLIs was gathered from elsewhere, so each fact carries
// a tag that says how well it is known, for readers with the real programs:
//
//	DOC     Docker's reference or manual
//	REL     Docker's release notes
//	1P      Docker's own source code that calls the CLI
//	MEAS v  measured with the real binary of version v
//	CODE    other code depends on it
//	ISSUE   a user's report in a tracker of Docker
//	?       inferred or invented: check it first
package sandboxcli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// flavour is which of the CLIs is called.
type flavour string

const (
	sbx    flavour = "sbx"
	plugin flavour = "docker-sandbox"
)

// call is one run of the program.
type call struct {
	ctx      context.Context // the one of Run: every verb needs it, and a call is no longer than that
	cli      flavour
	dir      string // the state folder, with the settings
	settings Settings
	store    store
	noInput  bool
	kept     *net.UnixConn // to the background process, for as long as this one lives

	stdin, stdout, stderr *os.File
}

// failure is an error with the exit code and the text of the real CLI.
type failure struct {
	text string
	code int
}

func (f *failure) Error() string { return f.text }

// Run is the program. The name in args[0] decides which CLI it is. It returns
// the exit code.
func Run(ctx context.Context, args []string, stdin, stdout, stderr *os.File) int {
	if err := dropRights(); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 2
	}
	c := &call{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr}
	switch name := filepath.Base(args[0]); flavour(name) {
	case sbx, plugin:
		c.cli = flavour(name)
	default:
		_, _ = fmt.Fprintf(stderr, "this is a fake: call it as %s or %s, not as %q\n", sbx, plugin, name)
		return 2
	}
	code, err := c.run(args[1:])
	if err == nil {
		return code
	}
	if f, ok := errors.AsType[*failure](err); ok {
		if f.text != "" {
			_, _ = fmt.Fprintln(stderr, f.text)
		}
		return f.code
	}
	_, _ = fmt.Fprintln(stderr, c.fail("%v", err).text)
	return 1
}

func (c *call) run(args []string) (int, error) {
	if c.cli == plugin && len(args) > 0 && args[0] == "docker-cli-plugin-metadata" {
		return c.metadata()
	}
	c.dir = os.Getenv(DirEnv)
	if c.dir == "" {
		return 0, c.fail("this is a fake: set %s to its state folder", DirEnv)
	}
	dir, err := filepath.EvalSymlinks(c.dir)
	if err != nil {
		return 0, c.fail("this is a fake, and its state folder is not there: %v", err)
	}
	c.dir = dir
	if c.settings, err = Load(c.dir); err != nil {
		return 0, err
	}
	if c.store, err = openStore(filepath.Join(c.dir, string(c.cli))); err != nil {
		return 0, err
	}
	if len(args) == 1 && args[0] == daemonVerb {
		return 0, c.daemon()
	}
	if err := c.note(args); err != nil {
		return 0, err
	}
	c.ignoreSIGTERM()
	if c.cli == plugin {
		dieWithDocker(c.ctx, os.Getenv("DOCKER_CLI_PLUGIN_SOCKET"))
		return c.plugin(args)
	}
	return c.sbx(args)
}

// dropRights permanently changes the user of this process to the program's owner, if the
// program is set-user-ID. So tests that root runs can use process mode.
func dropRights() error {
	user, group := os.Geteuid(), os.Getegid()
	if os.Getuid() == user {
		return nil
	}
	if err := syscall.Setresgid(group, group, group); err != nil {
		return fmt.Errorf("giving up root's rights: %w", err)
	}
	if err := syscall.Setresuid(user, user, user); err != nil {
		return fmt.Errorf("giving up root's rights: %w", err)
	}
	return nil
}

// fail is an error as the CLI words it.
func (c *call) fail(format string, args ...any) *failure {
	text := fmt.Sprintf(format, args...)
	if c.cli == sbx { // ? That the plugin's errors have nothing before them, as other plugins'.
		if c.since(30) {
			text = "ERROR: " + text // MEAS v0.45.1
		} else {
			text = "Error: " + text // MEAS v0.23; when it changed: ?
		}
	}
	return &failure{text, 1}
}

// since reports whether sbx is at least version 0.minor.
func (c *call) since(minor int) bool {
	major, rest, _ := strings.Cut(strings.TrimPrefix(c.settings.Version, "v"), ".")
	has, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(has)
	return major != "0" || err != nil || n >= minor
}

// flags is an empty set of flags.
func (c *call) flags(verb string) *pflag.FlagSet {
	fs := pflag.NewFlagSet(verb, pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return fs
}

// parse reads flags and returns the other arguments.
func (c *call) parse(fs *pflag.FlagSet, args []string) ([]string, error) {
	err := fs.Parse(args)
	switch {
	case err == nil:
		return fs.Args(), nil
	case errors.Is(err, pflag.ErrHelp):
		c.print("Usage:  %s %s [OPTIONS]\n\n%s", c.command(), fs.Name(), fs.FlagUsages())
		return nil, &failure{}
	case c.cli == sbx:
		return nil, c.fail("%v", err) // MEAS v0.45.1: exit 1, "ERROR: unknown flag: --x"
	default:
		// ? As other plugins of the Docker CLI.
		return nil, &failure{fmt.Sprintf("%v\n\nRun '%s %s --help' for more information", err, c.command(), fs.Name()), 125}
	}
}

// count checks how many arguments there are.
func (c *call) count(verb string, args []string, atLeast, atMost int) error {
	if len(args) < atLeast || atMost >= 0 && len(args) > atMost {
		return c.fail("%q has a wrong number of arguments: %d", c.command()+" "+verb, len(args)) // ?
	}
	return nil
}

// command is how users call the CLI.
func (c *call) command() string {
	if c.cli == plugin {
		return "docker sandbox"
	}
	return "sbx"
}

func (c *call) print(format string, args ...any) { _, _ = fmt.Fprintf(c.stdout, format, args...) }
func (c *call) warn(format string, args ...any)  { _, _ = fmt.Fprintf(c.stderr, format, args...) }

// begin runs before every verb for sandboxes.
func (c *call) begin() error {
	if m := c.settings.Mode; m != ModeProcess && m != ModeContainer {
		return c.fail("this fake knows no mode %q: use %q or %q", m, ModeProcess, ModeContainer)
	}
	if c.settings.Mode == ModeProcess && os.Geteuid() == 0 {
		return c.fail("this fake runs commands on the host, and refuses to do so as root: run the test as another user, or use %q mode", ModeContainer)
	}
	if c.cli == sbx {
		if err := c.ensureServing(); err != nil {
			return err
		}
		if err := c.checkLogin(); err != nil {
			return err
		}
	}
	if c.settings.Faults.VanishOnSleep {
		return c.vanish()
	}
	return nil
}

// vanish loses all running sandboxes, once (ISSUE #413). The setting is reset afterwards, so
// that concurrent calls wait.
func (c *call) vanish() error {
	var lost error
	err := Update(c.dir, func(s *Settings) {
		if s.Faults.VanishOnSleep {
			lost = c.loseRunning()
			s.Faults.VanishOnSleep = false
		}
	})
	return errors.Join(err, lost)
}

func (c *call) loseRunning() error {
	all, err := c.store.list()
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.Status == running {
			if err := c.remove(r.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// lost reports whether the engine below the daemon is out of reach.
func (c *call) lost() bool { return c.settings.Faults.EmptyList || !c.settings.EngineUp }

// errLost is what commands say then. MEAS v0.45.1: "500 … backend unavailable";
// the words between are ?.
func (c *call) errLost() error {
	return c.fail("request failed: 500 Internal Server Error: backend unavailable")
}

// ignoreSIGTERM lets the client outlive a SIGTERM for a while (CODE S22, which
// measured 28.9 s).
func (c *call) ignoreSIGTERM() {
	grace := time.Duration(c.settings.Faults.IgnoreSIGTERM)
	if grace <= 0 {
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		<-time.After(grace)
		signal.Reset(syscall.SIGTERM)
		die(syscall.SIGTERM)
	}()
}

// die ends this process by a signal.
func die(sig syscall.Signal) {
	_ = syscall.Kill(os.Getpid(), sig)
}

// dieWithDocker ends the plugin when the Docker CLI closes the socket between
// them, which is how it passes a signal on.
func dieWithDocker(ctx context.Context, address string) {
	if address == "" {
		return
	}
	var d net.Dialer
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := d.DialContext(ctx, "unix", address)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, conn)
		die(syscall.SIGTERM)
	}()
}

// hang blocks until the process is killed.
func hang() (int, error) {
	for {
		<-time.After(time.Hour)
	}
}
