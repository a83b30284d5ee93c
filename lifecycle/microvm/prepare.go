package microvm

import (
	"context"
	"fmt"
	"path"
	"runtime"
	"slices"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
)

// ready returns the record of a prepared sandbox.
func (d *Driver) ready(sb lifecycle.Sandbox) (record, bool) {
	rec, known, err := d.records().read(sb.Name)
	if err != nil || !known || rec.ID != sb.ID {
		return record{}, false
	}
	p, err := guestbin.For(runtime.GOARCH)
	return rec, err == nil && p.Hash == rec.Prepared
}

// Ready implements [lifecycle.Driver].
func (d *Driver) Ready(sb lifecycle.Sandbox, _ lifecycle.Spec) bool {
	_, ok := d.ready(sb)
	return ok
}

// Prepare implements [lifecycle.Driver]: ralph installs itself from the mounted
// directory, unless it is installed.
func (d *Driver) Prepare(ctx context.Context, sb lifecycle.Sandbox, spec lifecycle.Spec) error {
	rec, known, err := d.records().read(sb.Name)
	if err != nil {
		return err
	}
	if !known {
		return hint.Wrap(fmt.Errorf("no record of sandbox %s: another command has removed it", sb.Name), "run the command again")
	}
	if len(rec.Applied) == 0 { // before anything can happen in it
		if err := d.Restrict(ctx, sb, spec.Egress); err != nil {
			return err
		}
	}
	if sb.Clone && spec.Git != nil && rec.Prepared == "" {
		if err := d.fillClone(ctx, sb, spec); err != nil {
			return err
		}
	}
	p, err := guestbin.For(runtime.GOARCH) // a microVM has the host's architecture
	if err != nil {
		return err
	}
	ralph, err := d.guestFolder().put(p)
	if err != nil {
		return err
	}
	out, err := d.inside(ctx, sb.Name, limitBootstrap, ralph, "_bootstrap", spec.Version)
	if err != nil {
		return fmt.Errorf("installing ralph in sandbox %s: %w", sb.Name, err)
	}
	if err := checkBootstrap(out); err != nil {
		return fmt.Errorf("installing ralph in sandbox %s: %w", sb.Name, err)
	}
	return d.recordPrepared(ctx, sb, p.Hash)
}

// recordPrepared records the SHA-256 of the ralph in a sandbox, "" for none. It reads
// the record again, because the rest can have changed.
func (d *Driver) recordPrepared(ctx context.Context, sb lifecycle.Sandbox, hash string) error {
	unlock, err := d.lockRecord(ctx, sb.Name)
	if err != nil {
		return err
	}
	defer unlock()
	rec, known, err := d.records().read(sb.Name)
	if err != nil || !known {
		return err // it was removed
	}
	rec.Prepared = hash
	if hash != "" {
		rec.ID, rec.Created = sb.ID, true
	}
	return d.records().write(rec)
}

// checkBootstrap checks the output of the bootstrap. A program that does nothing also
// exits with 0.
func checkBootstrap(output []byte) error {
	var said struct {
		Program string `json:"program"`
	}
	if err := decode(output, &said); err != nil {
		return fmt.Errorf("reading the path of ralph: %w", err)
	}
	if !path.IsAbs(said.Program) {
		return fmt.Errorf("unexpected path %q", said.Program)
	}
	return nil
}

// Busy implements [lifecycle.Driver].
func (d *Driver) Busy(ctx context.Context, sb lifecycle.Sandbox) (bool, error) {
	running, err := d.Dispatches(ctx, sb)
	return slices.ContainsFunc(running, func(p lifecycle.Dispatch) bool { return !p.Service() }), err
}

// Dispatches implements [lifecycle.Driver], with this version of ralph from the
// mounted directory, whichever version is installed.
func (d *Driver) Dispatches(ctx context.Context, sb lifecycle.Sandbox) ([]lifecycle.Dispatch, error) {
	p, err := guestbin.For(runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	ralph, err := d.guestFolder().put(p)
	if err != nil {
		return nil, err
	}
	out, err := d.inside(ctx, sb.Name, limitExec, ralph, "_dispatches")
	if err != nil {
		return nil, fmt.Errorf("listing the processes of %s: %w", sb.Name, err)
	}
	return lifecycle.ParseDispatches(out)
}
