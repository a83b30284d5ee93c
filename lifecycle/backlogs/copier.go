package backlogs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// transferTimeout bounds a copy out of a sandbox, or into it.
const transferTimeout = 20 * time.Second

// versionFile is next to the copies: the version of the database in the newest one.
const versionFile = "version"

// copier copies the backlog of a sandbox while a command runs in it.
type copier struct {
	Backlog
	driver lifecycle.Driver
	sb     lifecycle.Sandbox
	id     string // of the dispatch
	last   string // the copy that the next one replaces
}

// Keep copies the backlog before and after a command that changes or replaces it, and after
// each run of a loop. A failed copy does not stop the command. A build with an empty backlog
// would succeed: it fails if there is a copy with tasks, also afterwards. For a loop that
// replaces a dead one, the copy is restored first.
func (b Backlog) Keep(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox, command, id string, died bool) (after func(code int) error, _ error) {
	c := &copier{Backlog: b, driver: driver, sb: sb, id: id}
	if died {
		if err := c.restore(ctx); err != nil {
			return nil, err
		}
	}
	var copied error
	switch {
	case b.missing():
		copied = errNoTasks // an export would create the database
	case !c.upToDate():
		copied = c.copy(ctx)
	}
	if err := b.checkTasks(command, copied); err != nil {
		return nil, err
	}
	c.last = "" // the copy from before the command stays
	stop := c.follow(ctx)
	return func(code int) error {
		if err := stop(); code == 0 {
			return b.checkTasks(command, err)
		}
		return nil
	}, nil
}

// version identifies the content of the database by its files on the host; empty if there are
// none.
func (c *copier) version() string {
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

// upToDate reports whether the newest copy has what the database has.
func (c *copier) upToDate() bool {
	version, err := os.ReadFile(filepath.Join(c.dir(), versionFile))
	if err != nil || string(version) != c.version() {
		return false
	}
	copies, err := c.Copies()
	return err == nil && len(copies) > 0
}

// copy saves a copy. One that is empty, which is [errNoTasks], or cannot be read never
// replaces a good one.
func (c *copier) copy(ctx context.Context) error {
	before := c.version()
	content, err := runlog.TakeBacklog(c.sb.Root, c.id, copyMax)
	if err == nil { // of a loop that has ended
		_, err = countTasks(content)
		content = append(content, '\n')
	} else {
		content, err = c.export(ctx)
	}
	if errors.Is(err, errNoTasks) {
		return err
	}
	if err != nil { // the sandbox has stopped, or the command itself reports the cause
		c.Host.ReportDebug(fmt.Sprintf("copying the backlog of %s: %v", c.Sandbox, err))
		return nil
	}
	if c.last, err = c.save(content, time.Now(), c.last); err != nil {
		c.Host.Warn(err)
		return err
	}
	if before != "" && before == c.version() { // otherwise the next command copies it again
		_ = os.WriteFile(filepath.Join(c.dir(), versionFile), []byte(before), 0o600)
	}
	return nil
}

// follow copies after each run of the loops in the worktree until stop is called, and then
// once more.
func (c *copier) follow(ctx context.Context) (stop func() error) {
	ctx = context.WithoutCancel(ctx)
	stopping, stopped := make(chan struct{}), make(chan struct{})
	seen := runlog.Runs(c.sb.Root)
	go func() {
		defer close(stopped)
		look := time.NewTicker(host.PollInterval)
		defer look.Stop()
		for {
			select {
			case <-stopping:
				return
			case <-look.C:
			}
			if runs := runlog.Runs(c.sb.Root); runs != seen {
				seen = runs
				_ = c.copy(ctx) // it reports
			}
		}
	}()
	return func() error {
		close(stopping)
		<-stopped
		return c.copy(ctx)
	}
}

// export returns the backlog of a running sandbox. An empty one is [errNoTasks], a damaged
// one a [lifecycle.ExitError].
func (c *copier) export(ctx context.Context) ([]byte, error) {
	var content bytes.Buffer
	err := c.transfer(ctx, "_export", nil, &lifecycle.Limited{To: &content, Left: copyMax})
	if err == nil {
		_, err = countTasks(content.Bytes())
	}
	return content.Bytes(), err
}

// transfer runs one of the hidden task commands.
func (c *copier) transfer(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), transferTimeout)
	defer cancel()
	return lifecycle.RunService(ctx, c.driver, c.sb, stdin, stdout, wire.Program, host.TaskCommand, command)
}

// restore restores the newest copy if the backlog was lost with its loop.
func (c *copier) restore(ctx context.Context) error {
	copies, err := c.Copies()
	if err != nil || len(copies) == 0 {
		return err
	}
	running, err := c.driver.Dispatches(ctx, c.sb)
	if err != nil || slices.ContainsFunc(running, func(d lifecycle.Dispatch) bool { _, loop := host.LoopCommand(d.Command); return loop }) {
		return err // another loop repairs it
	}
	_, err = c.export(ctx)
	if _, damaged := errors.AsType[*lifecycle.ExitError](err); !damaged && !errors.Is(err, errNoTasks) {
		return nil //nolint:nilerr // the backlog is there, or the sandbox is not
	}
	c.Host.ReportDebug(fmt.Sprintf("restoring the backlog of %s: %v", c.Sandbox, err))
	content, err := copies[0].open()
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }() // only read
	if err := c.transfer(ctx, ImportCommand, content, io.Discard); err != nil {
		return fmt.Errorf("restoring the backlog from the copy %s: %w", copies[0].Name, err)
	}
	c.Host.Report(fmt.Sprintf("Warning: the backlog was lost with its loop: restored it from the copy of %s", copies[0].Taken.Local().Format(time.TimeOnly)))
	return nil
}
