package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

const (
	// copiesMax is how many copies of a backlog are kept on the host.
	copiesMax = 5
	// maxCopy bounds a copy, in bytes: it comes from where the agent rules.
	maxCopy = 64 << 20
	// copyTimeout bounds how long a sandbox may take to give its backlog out.
	copyTimeout = 20 * time.Second
	copyStamp   = "20060102-150405.000"
)

// The hidden task commands that write a copy of the backlog, and read one.
const (
	exportCommand = "_export"
	importCommand = "_import"
)

// BacklogCopy is a copy of a scope's backlog on the host.
type BacklogCopy struct {
	Name  string // by which it can be asked for
	Taken time.Time
	// Counts are how many of its tasks have a status.
	Counts map[string]int

	path string
}

func copyDir(h host.Host, sandbox string) string {
	return filepath.Join(h.StateDir, "backlogs", sandbox)
}

// backlogCopies lists the copies of a sandbox's backlog, the newest first.
func backlogCopies(h host.Host, sandbox string) ([]BacklogCopy, error) {
	dir := copyDir(h, sandbox)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing copies of the backlog: %w", err)
	}
	var all []BacklogCopy
	for _, e := range slices.Backward(entries) { // names begin with the time
		name, found := strings.CutSuffix(e.Name(), ".json")
		taken, err := time.Parse(copyStamp, name)
		if !found || err != nil {
			continue
		}
		c := BacklogCopy{Name: name, Taken: taken, path: filepath.Join(dir, e.Name())}
		content, err := os.ReadFile(c.path)
		if err != nil {
			return nil, fmt.Errorf("reading a copy of the backlog: %w", err)
		}
		if c.Counts, err = countTasks(content); err == nil {
			all = append(all, c)
		}
	}
	return all, nil
}

// countTasks says how many tasks of each status a copy has. What is no copy, or
// has no task, is an error.
func countTasks(content []byte) (map[string]int, error) {
	var c struct {
		Tasks []struct{ ID, Slug, Status string }
	}
	if err := json.Unmarshal(content, &c); err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, t := range c.Tasks {
		if t.ID == "" || t.Slug == "" {
			return nil, errors.New("a task has no id")
		}
		counts[t.Status]++
	}
	if len(counts) == 0 {
		return nil, errNoTasks
	}
	return counts, nil
}

var errNoTasks = errors.New("it has no tasks")

// errUnreadable is wrapped for a backlog that a sandbox cannot read.
var errUnreadable = errors.New("it cannot be read")

// exportBacklog returns the backlog of a sandbox that runs. One that is damaged is
// [errUnreadable], an empty one [errNoTasks].
func exportBacklog(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox) ([]byte, error) {
	var content bytes.Buffer
	code, said, err := transferBacklog(ctx, driver, sb, exportCommand, nil, &commits.Limited{Buf: &content, Left: maxCopy})
	if err == nil && code != 0 {
		err = fmt.Errorf("%w: %s", errUnreadable, said)
	}
	if err == nil {
		_, err = countTasks(content.Bytes())
	}
	return content.Bytes(), err
}

// transferBacklog runs one of the hidden task commands in a sandbox.
func transferBacklog(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox, command string, stdin io.Reader, stdout io.Writer) (code int, said string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), copyTimeout)
	defer cancel()
	var stderr bytes.Buffer
	code, err = driver.Exec(ctx, sb, lifecycle.Process{
		ID: lifecycle.NewServiceID(), Args: []string{wire.Program, host.TaskCommand, command}, Dir: filepath.ToSlash(sb.Root),
		Env: ScopeEnv(sb.Scope), Stdin: stdin, Stdout: stdout, Stderr: &commits.Limited{Buf: &stderr, Left: 4096},
	})
	return code, termsafe.Line(strings.TrimSpace(stderr.String())), err
}

// keepCopy writes a copy unless the newest is the same, in the place of the one at
// the path replaced if that is not empty, and removes the oldest. It returns the path
// of the newest copy.
func keepCopy(h host.Host, sandbox string, content []byte, now time.Time, replaced string) (path string, err error) {
	all, err := backlogCopies(h, sandbox)
	if err != nil {
		return replaced, err
	}
	if len(all) > 0 {
		if newest, err := os.ReadFile(all[0].path); err == nil && bytes.Equal(newest, content) {
			return replaced, nil
		}
	}
	dir := copyDir(h, sandbox)
	path = filepath.Join(dir, now.UTC().Format(copyStamp)+".json")
	if err = os.MkdirAll(dir, 0o700); err == nil {
		err = atomicwriter.WriteFile(path, content, 0o600)
	}
	if err != nil {
		return replaced, fmt.Errorf("keeping a copy of the backlog: %w", err)
	}
	all = slices.DeleteFunc(all, func(c BacklogCopy) bool { return c.path == replaced && os.Remove(replaced) == nil })
	for _, old := range all[min(len(all), copiesMax-1):] {
		_ = os.Remove(old.path) // the next copy tries again
	}
	return path, nil
}

// backlogCopier copies the backlog of a sandbox while a command runs in it.
type backlogCopier struct {
	host    host.Host
	driver  lifecycle.Driver
	sb      lifecycle.Sandbox
	sandbox string // its name
	id      string // of the dispatch
	last    string // the copy that the next one replaces
}

// versionFile names, beside the copies, the version of the database in the newest one.
const versionFile = "version"

// version identifies the content of the database by how its files look on the host;
// empty if it is not there.
func (c *backlogCopier) version() string {
	var v strings.Builder
	for _, name := range []string{"tasks.db", "tasks.db-wal"} {
		info, err := os.Lstat(filepath.Join(c.sb.Root, ".ralph", name))
		switch {
		case err == nil:
			_, _ = fmt.Fprintln(&v, info.Mode(), info.Size(), info.ModTime().UnixNano())
		case name == "tasks.db":
			return ""
		}
	}
	return c.sb.ID + "\n" + v.String()
}

// upToDate reports whether the newest copy holds what the database does.
func (c *backlogCopier) upToDate() bool {
	noted, err := os.ReadFile(filepath.Join(copyDir(c.host, c.sandbox), versionFile))
	if err != nil || string(noted) != c.version() {
		return false
	}
	copies, err := backlogCopies(c.host, c.sandbox)
	return err == nil && len(copies) > 0
}

// keep keeps a copy. One that cannot be read, or is empty, never takes the place of a
// good one; an empty one is [errNoTasks].
func (c *backlogCopier) keep(ctx context.Context) error {
	before := c.version()
	content, err := runlog.TakeBacklog(c.sb.Root, c.id, maxCopy)
	if err == nil { // the loop has ended, and left it
		_, err = countTasks(content)
		content = append(content, '\n')
	} else {
		content, err = exportBacklog(ctx, c.driver, c.sb)
	}
	if errors.Is(err, errNoTasks) {
		return err
	}
	if err != nil { // the sandbox has stopped, or the command itself says what is wrong
		debug(c.host, fmt.Sprintf("copying the backlog of %s: %v", c.sandbox, err))
		return nil
	}
	if c.last, err = keepCopy(c.host, c.sandbox, content, time.Now(), c.last); err != nil {
		c.host.Report(fmt.Sprintf("Warning: %v", err))
		return err
	}
	if before != "" && before == c.version() { // or else the next command copies it again
		_ = os.WriteFile(filepath.Join(copyDir(c.host, c.sandbox), versionFile), []byte(before), 0o600)
	}
	return nil
}

// follow keeps a copy after each run of the loops in the worktree top, until stop is
// called, and then a last one. An empty backlog is [errNoTasks] then.
func (c *backlogCopier) follow(ctx context.Context, top string) (stop func() error) {
	ctx = context.WithoutCancel(ctx)
	stopping, stopped := make(chan struct{}), make(chan struct{})
	seen := runlog.Latest(top)
	go func() {
		defer close(stopped)
		look := time.NewTicker(commits.LookEvery)
		defer look.Stop()
		for {
			select {
			case <-stopping:
				return
			case <-look.C:
			}
			if latest := runlog.Latest(top); latest.After(seen) {
				seen = latest
				_ = c.keep(ctx) // it reports
			}
		}
	}()
	return func() error {
		close(stopping)
		<-stopped
		return c.keep(ctx)
	}
}

// copyBacklog copies the backlog before and after a command that changes it a lot or
// replaces it, and after each run of a loop. A failed copy does not stop the command. A
// build with an empty backlog would end as if all were done: it fails if there is a copy
// with tasks, also after it has ended well. For a loop that takes the place of a dead
// one, the copy is restored first.
func copyBacklog(ctx context.Context, h host.Host, t Target, sb lifecycle.Sandbox, id string, died bool) (after func(code int) error, _ error) {
	if !host.IsLoop(t.opts.Command) && !t.opts.restores() || t.spec.Ephemeral {
		return func(int) error { return nil }, nil
	}
	if died {
		if err := recoverBacklog(ctx, h, t.Driver, sb, t.spec.Name); err != nil {
			return nil, err
		}
	}
	c := &backlogCopier{host: h, driver: t.Driver, sb: sb, sandbox: t.spec.Name, id: id}
	var kept error
	switch {
	case backlogMissing(t):
		kept = errNoTasks // an export would create the database
	case !c.upToDate():
		kept = c.keep(ctx)
	}
	if err := checkTasks(h, t.spec.Name, t.opts, kept); err != nil {
		return nil, err
	}
	c.last = "" // what was before the command stays
	stop := c.follow(ctx, t.spec.Root)
	return func(code int) error {
		if err := stop(); code == 0 {
			return checkTasks(h, t.spec.Name, t.opts, err)
		}
		return nil
	}, nil
}

// checkTasks returns the error for a build whose backlog is empty though there are
// copies with tasks.
func checkTasks(h host.Host, sandbox string, opts Options, kept error) error {
	if !errors.Is(kept, errNoTasks) || opts.Command != host.BuildCommand {
		return nil
	}
	copies, err := backlogCopies(h, sandbox)
	if err != nil || len(copies) == 0 {
		return err
	}
	return backlogGone("its database has no tasks")
}

// recoverBacklog restores the newest copy if the backlog was lost with its loop.
func recoverBacklog(ctx context.Context, h host.Host, driver lifecycle.Driver, sb lifecycle.Sandbox, sandbox string) error {
	copies, err := backlogCopies(h, sandbox)
	if err != nil || len(copies) == 0 {
		return err
	}
	running, err := driver.Dispatches(ctx, sb)
	if err != nil || slices.ContainsFunc(running, func(d lifecycle.Dispatch) bool { _, loop := host.LoopCommand(d.Command); return loop }) {
		return err // another loop repairs it
	}
	_, err = exportBacklog(ctx, driver, sb)
	if !errors.Is(err, errNoTasks) && !errors.Is(err, errUnreadable) {
		return nil //nolint:nilerr // it is there, or the sandbox is not
	}
	debug(h, fmt.Sprintf("restoring the backlog of %s: %v", sandbox, err))
	content, err := os.Open(copies[0].path)
	if err != nil {
		return fmt.Errorf("reading a copy of the backlog: %w", err)
	}
	defer func() { _ = content.Close() }() // only read
	code, said, err := transferBacklog(ctx, driver, sb, importCommand, content, io.Discard)
	if err == nil && code != 0 {
		err = errors.New(said)
	}
	if err != nil {
		return fmt.Errorf("restoring the backlog from the copy %s: %w", copies[0].Name, err)
	}
	h.Report(fmt.Sprintf("Warning: the backlog was lost with its loop: restored it from the copy of %s", copies[0].Taken.Local().Format(time.TimeOnly)))
	return nil
}

// backlogGone is the error for a backlog that there are copies of.
func backlogGone(why string) error {
	return hint.Wrap(errors.New("the backlog is gone: "+why), `restore a copy with "docker ralph task restore"`)
}

// restores reports whether the command replaces the backlog by a copy.
func (o Options) restores() bool {
	return o.Command == host.TaskCommand && len(o.Args) > 0 && o.Args[0] == importCommand
}

// backlogMissing reports whether the worktree has no database.
func backlogMissing(t Target) bool {
	if t.spec.Private && t.Kind != config.DriverContainer {
		return false // it is in a clone, inside
	}
	_, err := os.Lstat(filepath.Join(t.spec.Root, ".ralph", "tasks.db"))
	return errors.Is(err, fs.ErrNotExist)
}

// checkBacklog reports a missing backlog of which there are copies. A build without one
// is an error.
func checkBacklog(h host.Host, t Target) error {
	if !host.IsLoop(t.opts.Command) && t.opts.Command != host.TaskCommand || t.opts.restores() || !backlogMissing(t) {
		return nil
	}
	copies, err := backlogCopies(h, t.spec.Name)
	if err != nil || len(copies) == 0 {
		return err
	}
	gone := backlogGone("there is no " + filepath.Join(t.spec.Root, ".ralph", "tasks.db"))
	if t.opts.Command == host.BuildCommand {
		return gone
	}
	warn(h, gone)
	return nil
}

// BacklogCopies lists the copies of the current scope's backlog, the newest first.
func BacklogCopies(ctx context.Context, h host.Host, w *host.Worktree) ([]BacklogCopy, error) {
	h, _, name, err := copiesOf(ctx, h, w)
	if err != nil {
		return nil, err
	}
	return backlogCopies(h, name)
}

func copiesOf(ctx context.Context, h host.Host, w *host.Worktree) (host.Host, gitrepo.Worktree, string, error) {
	h, err := h.Into(ctx, w)
	if err != nil {
		return h, gitrepo.Worktree{}, "", err
	}
	wt, err := gitrepo.Detect(ctx, h.Dir, h.Getenv)
	if err != nil {
		return h, wt, "", err
	}
	name, err := h.SandboxName(wt)
	return h, wt, name, err
}

// RestoreBacklog replaces the backlog of the current scope by a copy, the newest one if
// name is empty. The replaced one is copied if it can be read.
func RestoreBacklog(ctx context.Context, h host.Host, opts Options, name string) (int, error) {
	in, wt, sandbox, err := copiesOf(ctx, h, opts.Worktree)
	if err != nil {
		return 0, err
	}
	notes, err := in.RecordsIn(wt)
	if err != nil {
		return 0, err
	}
	if slices.ContainsFunc(notes, func(n host.Record) bool { return n.Live && n.IsLoop() }) {
		return 0, hint.Wrap(errors.New("a loop is using this backlog"), `end it with "docker ralph stop", then restore`)
	}
	copies, err := backlogCopies(in, sandbox)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(copies, func(c BacklogCopy) bool { return name == "" || c.Name == name })
	if i < 0 && name == "" {
		return 0, fmt.Errorf("no copy of the backlog of %s: loops create them", wt.Scope.Branch)
	}
	if i < 0 {
		return 0, hint.Wrap(fmt.Errorf("no copy %q of this backlog", name), `list the copies with "docker ralph task restore --list"`)
	}
	content, err := os.Open(copies[i].path)
	if err != nil {
		return 0, fmt.Errorf("reading a copy of the backlog: %w", err)
	}
	defer func() { _ = content.Close() }() // only read
	h.Stdin, h.Terminal = content, nil
	opts.Command, opts.Args = host.TaskCommand, []string{importCommand}
	return Run(ctx, h, opts)
}
