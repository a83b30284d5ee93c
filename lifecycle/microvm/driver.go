package microvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/docker-ralph/docker-ralph/credential/hostconfig"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/wire/printable"
)

// Driver is the driver for the program that its dialect speaks to.
type Driver struct {
	Dialect Dialect
	// StateDir is where the driver keeps what it knows of its sandboxes, and
	// the ralph that they mount.
	StateDir string
	// Keeper is a command that calls [Driver.Keep] with the two arguments that
	// are added to it. It is started for a [lifecycle.Process] that is lasting.
	Keeper []string
	// Report tells the user something.
	Report func(message string)
	// TimeScale multiplies all time limits; 0 means 1.
	TimeScale float64
}

var _ lifecycle.Driver = (*Driver)(nil)

// Name implements [lifecycle.Driver].
func (d *Driver) Name() string { return d.Dialect.Name() }

// Manual implements [lifecycle.Driver].
func (d *Driver) Manual(name string) lifecycle.Manual { return d.Dialect.Manual(name) }

func (d *Driver) records() records { return recordsOf(d.StateDir, d.Name()) }

// call runs a command of the program.
func (d *Driver) call(ctx context.Context, op call) ([]byte, error) {
	client, err := d.Dialect.Client(ctx)
	if err != nil {
		return nil, err
	}
	out, err := client.Output(ctx, d.scaled(op.limit), op.args...)
	if err != nil {
		return nil, d.explain(err)
	}
	return out, nil
}

func (d *Driver) scaled(limit time.Duration) time.Duration {
	if d.TimeScale > 0 {
		return time.Duration(float64(limit) * d.TimeScale)
	}
	return limit
}

// explain prefers our words for what the program said, and keeps its own
// within reach.
func (d *Driver) explain(err error) error {
	if c, ok := errors.AsType[*CallError](err); ok {
		if known := d.Dialect.Explain(c); known != nil {
			return &explainedError{known, c}
		}
	}
	return err
}

// explainedError says what is wrong, and unwraps to how that is known too.
type explainedError struct {
	error
	call *CallError
}

func (e *explainedError) Unwrap() []error { return []error{e.error, e.call} }

// list asks the program for its sandboxes. An answer that cannot be read is
// asked for once more: it may have been written while the daemon started.
func (d *Driver) list(ctx context.Context) ([]Entry, error) {
	var unreadable error
	for range 2 {
		out, err := d.call(ctx, listCall())
		if err != nil {
			return nil, fmt.Errorf("listing sandboxes: %w", err)
		}
		entries, err := ParseListing(out, d.Dialect.Root())
		if err == nil {
			return entries, nil
		}
		c := &CallError{Typed: d.typed(ctx, listCall()), Stdout: string(out), Err: err}
		if unreadable = d.Dialect.Explain(c); unreadable == nil {
			unreadable = fmt.Errorf("the answer of %q cannot be read: %w. It began with %.200q", c.Typed, err, out)
		}
	}
	return nil, fmt.Errorf("listing sandboxes: %w", unreadable)
}

func (d *Driver) typed(ctx context.Context, op call) string {
	client, err := d.Dialect.Client(ctx)
	if err != nil {
		return d.Name()
	}
	return client.typed(op.args)
}

// Lookup implements [lifecycle.Driver]. What is not listed but remembered is
// not found only if the list shows others: a program that has lost its engine
// lists nothing at all (contract, section 7).
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
		why := d.Dialect.Diagnose(ctx, name)
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

// found matches what is listed with what is remembered.
func (d *Driver) found(entry Entry, rec record, known bool) (lifecycle.Sandbox, error) {
	foreign := &lifecycle.ForeignError{Name: entry.Name, What: "a sandbox of " + d.Name()}
	if !known {
		return lifecycle.Sandbox{}, foreign
	}
	other := entry.ID != "" && rec.ID != "" && entry.ID != rec.ID
	elsewhere := entry.Root() != "" && entry.Root() != rec.Root
	if other || elsewhere {
		return lifecycle.Sandbox{}, foreign
	}
	sb := rec.sandbox(entry.State())
	if sb.ID == "" {
		sb.ID = entry.ID // creating it was interrupted, or it was not told
	}
	if sb.State == lifecycle.Unknown {
		sb.Why = fmt.Sprintf("%s calls it %q", d.Name(), printable.Line(entry.Status))
	}
	return sb, nil
}

// List implements [lifecycle.Driver].
func (d *Driver) List(ctx context.Context) ([]lifecycle.Sandbox, error) {
	names, err := d.records().names()
	if err != nil || len(names) == 0 {
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

// Create implements [lifecycle.Driver]. What the sandbox is for is noted before
// it is made, so that one whose making was interrupted is known for ours.
func (d *Driver) Create(ctx context.Context, spec lifecycle.Spec) (lifecycle.Sandbox, error) {
	rec, err := newRecord(spec)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	old, known, err := d.records().read(spec.Name)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	mounts, err := d.mounts(spec)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	args, err := d.Dialect.Create(ctx, spec, mounts)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	if err := d.records().write(rec); err != nil {
		return lifecycle.Sandbox{}, err
	}
	if _, err := d.call(ctx, call{limitCreate, args}); err != nil {
		return lifecycle.Sandbox{}, d.notCreated(ctx, err, rec, old, known)
	}
	entries, err := d.list(ctx)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	entry, listed := find(entries, spec.Name)
	if !listed {
		return lifecycle.Sandbox{}, fmt.Errorf("%s says that it has created the sandbox %s, but does not list it: see %q", d.Name(), spec.Name, d.Manual(spec.Name).List)
	}
	rec.ID, rec.Created = entry.ID, true
	if err := d.records().write(rec); err != nil {
		return lifecycle.Sandbox{}, err
	}
	return d.found(entry, rec, true)
}

// notCreated tells why there is no new sandbox, and puts the memory of an older
// one back.
func (d *Driver) notCreated(ctx context.Context, err error, rec, old record, known bool) error {
	c, ok := errors.AsType[*CallError](err)
	taken := ok && d.Dialect.Taken(c)
	switch {
	case known:
		err = errors.Join(err, d.records().write(old))
	case taken || ok && d.surelyAbsent(ctx, rec.Name, c):
		err = errors.Join(err, d.records().remove(rec.Name))
	} // else it is ours if it was made
	if taken {
		return lifecycle.ErrExists
	}
	if ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("creating the sandbox %s: %w", rec.Name, err)
}

// surelyAbsent tells whether nothing can come of a creation that failed: it was
// refused in words that we know, or a list shows other sandboxes.
func (d *Driver) surelyAbsent(ctx context.Context, name string, failed *CallError) bool {
	entries, err := d.list(ctx)
	_, listed := find(entries, name)
	if err != nil || listed || failed.Limit > 0 {
		return false
	}
	return len(entries) > 0 || d.Dialect.Explain(failed) != nil
}

// mounts are the folders beside the work tree.
func (d *Driver) mounts(spec lifecycle.Spec) ([]Mount, error) {
	var mounts []Mount
	for _, dir := range spec.Mounts {
		mounts = append(mounts, Mount{Path: dir})
	}
	guest := d.guestFolder()
	if err := guest.make(); err != nil {
		return nil, err
	}
	mounts = append(mounts, Mount{Path: string(guest), ReadOnly: true})
	if spec.Config != "" {
		if err := hostconfig.MakeShown(spec.Config); err != nil {
			return nil, err
		}
		mounts = append(mounts, Mount{Path: spec.Config, ReadOnly: true})
	}
	return mounts, nil
}

// Start implements [lifecycle.Driver].
func (d *Driver) Start(ctx context.Context, sb lifecycle.Sandbox) error {
	if err := hostconfig.Restore(sb.Config, d.Name(), sb.Name); err != nil {
		return fmt.Errorf("starting the sandbox %s: %w", sb.Name, err)
	}
	if _, err := d.call(ctx, call{limitStart, d.Dialect.Start(sb.Name)}); err != nil {
		return fmt.Errorf("starting the sandbox %s: %w", sb.Name, err)
	}
	return nil
}

// Stop implements [lifecycle.Driver].
func (d *Driver) Stop(ctx context.Context, sb lifecycle.Sandbox) error {
	if _, err := d.call(ctx, call{limitStop, d.Dialect.Stop(sb.Name)}); err != nil {
		return fmt.Errorf("stopping the sandbox %s: %w", sb.Name, err)
	}
	return nil
}

// Remove implements [lifecycle.Driver].
func (d *Driver) Remove(ctx context.Context, sb lifecycle.Sandbox) error {
	_, err := d.call(ctx, call{limitStop, d.Dialect.Remove(sb.Name)})
	if c, ok := errors.AsType[*CallError](err); ok && d.Dialect.Missing(c) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("removing the sandbox %s: %w", sb.Name, err)
	}
	if staging, err := hostconfig.StagingAt(sb.Config, d.Name(), sb.Name); err == nil {
		if err := staging.Remove(); err != nil {
			return fmt.Errorf("removing the sandbox %s: %w", sb.Name, err)
		}
	}
	_ = os.Remove(d.keeperLog(sb.Name)) // there may be none
	return d.records().remove(sb.Name)
}
