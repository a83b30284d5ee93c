package microvm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/credential/agentconfig"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Driver is the driver for one of the two programs.
type Driver struct {
	Options
	name string
	dialect
}

var (
	_ lifecycle.Restricter = (*Driver)(nil)
	_ lifecycle.KeyStore   = (*Driver)(nil)
	_ lifecycle.Limiter    = (*Driver)(nil)
)

// Options configure a driver.
type Options struct {
	// StateDir is the plugin's state directory, with the records of sandboxes and the
	// ralph that they mount.
	StateDir string
	// Report prints a message for the user.
	Report func(message string)
	// TimeScale multiplies all timeouts; 0 means 1.
	TimeScale float64

	// Engine has images that are copied to the store of sbx; nil for none.
	Engine Engine
	// KVM is the device that sbx needs on Linux; empty to skip the check.
	KVM string
	// Docker is the Docker CLI, and Globals its options that choose the configuration
	// and the engine, for docker sandbox.
	Docker  string
	Globals []string
	// Beat is how often docker sandbox is kept awake; 0 for the default.
	Beat time.Duration
}

// New returns the driver of that name, one of [Drivers].
func New(name string, o Options) *Driver {
	if name == Sbx {
		return &Driver{o, name, sbxDialect(o)}
	}
	return &Driver{o, name, pluginDialect(o)}
}

// Name implements [lifecycle.Driver].
func (d *Driver) Name() string { return d.name }

// Limits implements [lifecycle.Limiter].
func (d *Driver) Limits() bool { return d.limits }

// Keys implements [lifecycle.KeyStore].
func (d *Driver) Keys(ctx context.Context, services []credential.Service, present func(names []string) bool) (map[string]bool, error) {
	return d.keys(ctx, d, services, present)
}

// MissingKeyHint implements [lifecycle.KeyStore].
func (d *Driver) MissingKeyHint(services []credential.Service) string {
	return d.missingKeyHint(services)
}

// Usable reports whether sandboxes can be created.
func (d *Driver) Usable(ctx context.Context) error { return d.usable(ctx, d) }

// ListCommand implements [lifecycle.Driver].
func (d *Driver) ListCommand() string { return d.cli + " ls" }

func (d *Driver) records() records { return recordsOf(d.StateDir, d.name) }

// commandLine runs a command of the program without input.
func (d *Driver) call(ctx context.Context, limit time.Duration, args ...string) ([]byte, error) {
	c, err := d.client(ctx)
	if err != nil {
		return nil, err
	}
	out, err := c.output(ctx, d.scaled(limit), args...)
	return out, d.withHint(err)
}

// inside runs a small command of ours in a sandbox.
func (d *Driver) inside(ctx context.Context, name string, limit time.Duration, command ...string) ([]byte, error) {
	return d.call(ctx, limit, d.exec(name, execOptions{}, command...)...)
}

func (d *Driver) scaled(limit time.Duration) time.Duration {
	if d.TimeScale > 0 {
		return time.Duration(float64(limit) * d.TimeScale)
	}
	return limit
}

// withHint replaces a known failure of the program by an error with a hint.
func (d *Driver) withHint(err error) error {
	c, ok := errors.AsType[*callError](err)
	if !ok {
		return err
	}
	if c.limit > 0 {
		return hint.Wrap(err, "%s", d.remedy)
	}
	if known := d.explain(c); known != nil {
		return &hintedError{known, c}
	}
	return err
}

// hintedError also unwraps to the failure of the program.
type hintedError struct {
	error
	call *callError
}

func (e *hintedError) Unwrap() []error { return []error{e.error, e.call} }

// list asks the program for its sandboxes.
func (d *Driver) list(ctx context.Context) ([]Entry, error) {
	entries, err := d.entries(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	return entries, nil
}

// entries is list. Unreadable output is requested once more: it may have been written
// while the daemon started.
func (d *Driver) entries(ctx context.Context) (entries []Entry, err error) {
	for range 2 {
		var out []byte
		if out, err = d.call(ctx, limitList, "ls", "--json"); err != nil {
			return nil, err
		}
		if entries, err = ParseListing(out, d.listKey); err == nil {
			return entries, nil
		}
		if known := d.explain(&callError{stdout: string(out)}); known != nil {
			return nil, known
		}
		err = fmt.Errorf("parsing the output of %q: %w: %.200q", d.cli+" ls --json", err, out)
	}
	return nil, err
}

// diagnose returns, in a clause, why the program may list nothing although there was a
// sandbox.
func (d *Driver) diagnose(ctx context.Context, name string) string {
	why := d.cli + " lists no sandboxes at all, but this one was created; "
	_, err := d.inside(ctx, name, limitList, "true")
	c, said := errors.AsType[*callError](err)
	switch {
	case err == nil:
		return why + "it still runs commands: " + d.remedy
	case said && c.missing():
		return why + "by name, it is not found either"
	default:
		return why + err.Error()
	}
}

// Lookup implements [lifecycle.Driver]. A recorded sandbox is not found only if others are
// listed: a program that has lost its engine lists nothing (contract, section 7).
func (d *Driver) Lookup(ctx context.Context, name string) (lifecycle.Sandbox, error) {
	entries, err := d.list(ctx)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	rec, known, err := d.records().read(name)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	entry, listed := find(entries, name)
	if !listed && known && rec.Created && len(entries) == 0 {
		why := d.diagnose(ctx, name)
		if entries, err = d.list(ctx); err != nil {
			return lifecycle.Sandbox{}, err
		}
		if entry, listed = find(entries, name); !listed {
			sb := rec.sandbox(lifecycle.Unknown)
			sb.Why = why
			return sb, nil
		}
	}
	if !listed {
		return lifecycle.Sandbox{Name: name, State: lifecycle.NotFound}, nil
	}
	return d.found(entry, rec, known)
}

func find(entries []Entry, name string) (Entry, bool) {
	for _, e := range entries {
		if e.Name == name {
			return e, true
		}
	}
	return Entry{}, false
}

// found combines a listed sandbox with its record.
func (d *Driver) found(entry Entry, rec record, known bool) (lifecycle.Sandbox, error) {
	foreign := lifecycle.Unrecorded(entry.Name, "a sandbox of "+d.name)
	if !known {
		return lifecycle.Sandbox{}, foreign
	}
	other := entry.ID != "" && rec.ID != "" && entry.ID != rec.ID
	elsewhere := entry.Root() != "" && entry.Root() != d.workspace(rec)
	if other || elsewhere {
		return lifecycle.Sandbox{}, foreign
	}
	sb := rec.sandbox(entry.State())
	if sb.ID == "" {
		sb.ID = entry.ID // its creation was interrupted, or sbx did not list it
	}
	if sb.State == lifecycle.Unknown {
		sb.Why = fmt.Sprintf("%s reports the status %q", d.name, entry.Status)
	}
	return sb, nil
}

// List implements [lifecycle.Driver].
func (d *Driver) List(ctx context.Context) ([]lifecycle.Sandbox, error) {
	recorded, err := Images(d.StateDir, d.name)
	if err != nil || len(recorded) == 0 {
		return nil, err
	}
	entries, err := d.list(ctx)
	if err != nil {
		return nil, err
	}
	var all []lifecycle.Sandbox
	for _, entry := range entries {
		rec, known, err := d.records().read(entry.Name)
		if err != nil {
			return nil, err
		}
		if sb, err := d.found(entry, rec, known); err == nil {
			all = append(all, sb)
		}
	}
	return all, nil
}

// Create implements [lifecycle.Driver]. The record is written first, so that a sandbox
// whose creation was interrupted is recognized.
func (d *Driver) Create(ctx context.Context, spec lifecycle.Spec) (lifecycle.Sandbox, error) {
	rec, err := newRecord(spec)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	old, known, err := d.records().read(spec.Name)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	mounts, err := d.mounts(rec, spec)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	flags, err := d.create(ctx, d, spec)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	// ralph starts the agent itself
	args := slices.Concat([]string{"create", "--name", spec.Name}, flags, []string{"shell", d.workspace(rec)}, mounts)
	if err := d.records().write(rec); err != nil {
		return lifecycle.Sandbox{}, err
	}
	if _, err := d.call(ctx, limitCreate, args...); err != nil {
		return lifecycle.Sandbox{}, d.notCreated(ctx, err, rec, old, known)
	}
	if rec.Clone { // what an earlier sandbox of this name had is gone with it
		if err := gitsync.MarkEmpty(d.StateDir, spec.Name); err != nil {
			return lifecycle.Sandbox{}, err
		}
	}
	entries, err := d.list(ctx)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	entry, listed := find(entries, spec.Name)
	if !listed {
		return lifecycle.Sandbox{}, hint.Wrap(fmt.Errorf("%s created sandbox %s, but does not list it", d.name, spec.Name), "run %q", d.ListCommand())
	}
	rec.ID, rec.Created = entry.ID, true
	if err := d.records().write(rec); err != nil {
		return lifecycle.Sandbox{}, err
	}
	return d.found(entry, rec, true)
}

// notCreated returns why there is no new sandbox, and restores the record of an older one.
func (d *Driver) notCreated(ctx context.Context, err error, rec, old record, known bool) error {
	c, ok := errors.AsType[*callError](err)
	taken := ok && c.taken()
	switch {
	case known:
		err = errors.Join(err, d.records().write(old))
	case taken || ok && d.wasNotCreated(ctx, rec.Name, c):
		err = errors.Join(err, d.records().remove(rec.Name))
	} // otherwise it may have been created
	if taken {
		return lifecycle.ErrExists
	}
	if ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("creating sandbox %s: %w", rec.Name, err)
}

// wasNotCreated reports whether a failed creation certainly left no sandbox: the failure
// is a known one, or the list shows others.
func (d *Driver) wasNotCreated(ctx context.Context, name string, failed *callError) bool {
	entries, err := d.list(ctx)
	_, listed := find(entries, name)
	if err != nil || listed || failed.limit > 0 {
		return false
	}
	return len(entries) > 0 || d.explain(failed) != nil
}

// Start implements [lifecycle.Driver]. Any command starts a stopped sandbox. "sbx run --detached"
// would also pin it, so that it never stops as idle.
func (d *Driver) Start(ctx context.Context, sb lifecycle.Sandbox) error {
	if err := agentconfig.Recreate(sb.Config, d.name, sb.Name); err != nil {
		return fmt.Errorf("starting sandbox %s: %w", sb.Name, err)
	}
	if _, err := d.inside(ctx, sb.Name, limitStart, "true"); err != nil {
		return fmt.Errorf("starting sandbox %s: %w", sb.Name, err)
	}
	return nil
}

// Stop implements [lifecycle.Driver].
func (d *Driver) Stop(ctx context.Context, sb lifecycle.Sandbox) error {
	for range stopTries {
		if _, err := d.call(ctx, limitStop, "stop", sb.Name); err != nil {
			return fmt.Errorf("stopping sandbox %s: %w", sb.Name, err)
		}
		// A session that was opened at that moment has started it again.
		if again, err := d.Lookup(ctx, sb.Name); err != nil || again.State != lifecycle.Running {
			return nil //nolint:nilerr // it was stopped
		}
	}
	return fmt.Errorf("stopping sandbox %s: it was started again %d times", sb.Name, stopTries)
}

// stopTries is how often a sandbox is stopped that was started again meanwhile.
const stopTries = 3

// Remove implements [lifecycle.Driver].
func (d *Driver) Remove(ctx context.Context, sb lifecycle.Sandbox) error {
	_, err := d.call(ctx, limitStop, append(slices.Clone(d.remove), sb.Name)...)
	if c, ok := errors.AsType[*callError](err); ok && c.missing() {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("removing sandbox %s: %w", sb.Name, err)
	}
	if staging, err := agentconfig.StagingAt(sb.Config, d.name, sb.Name); err == nil {
		if err := staging.Remove(); err != nil {
			return fmt.Errorf("removing sandbox %s: %w", sb.Name, err)
		}
	}
	if err := d.removeClone(sb); err != nil {
		return err
	}
	return d.records().remove(sb.Name)
}
