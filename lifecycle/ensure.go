package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/hint"
)

// Ensurer creates, starts and prepares the sandbox of a scope.
type Ensurer struct {
	Driver Driver
	// Why is the reason for the choice of the driver; empty if the user chose it.
	Why string
	// AnyAgent is set for a repair, which starts no agent: an existing sandbox is used as
	// it is, whatever its agent, image, limits and network are. It returns the network
	// access for that agent.
	AnyAgent func(agent string) (Egress, error)
	// LockDir is the directory of lock files, one for each scope.
	LockDir string
	// Image ensures that the spec's image exists. It is called before the old sandbox
	// is removed.
	Image func(ctx context.Context) error
	// Save ensures that removing a sandbox loses no work; nil if it cannot.
	Save func(ctx context.Context, sb Sandbox) error
	// Exclude keeps other commands from using a sandbox, from before Save until it is removed;
	// nil if they may use it. It returns an error if one does.
	Exclude func(sb Sandbox) (done func(), err error)
	// Outdated reports a sandbox of a kind that earlier versions made: it is recreated without asking;
	// may be nil.
	Outdated func(sb Sandbox) bool
	// Failed is called when a sandbox could not be started, before a new one is
	// removed; may be nil.
	Failed func(ctx context.Context, sb Sandbox)
	// Report prints progress messages.
	Report func(message string)
	// Confirm asks the user; nil without a terminal.
	Confirm func(ctx context.Context, question string) (bool, error)
}

// stableTimeout limits the wait for a sandbox in a transitional state.
const stableTimeout = 30 * time.Second

// Ensure returns the running sandbox that spec describes, and creates, starts and
// prepares it if necessary. With recreate, an existing one is recreated. If nothing
// has to be done, it costs one lookup and no lock.
func (e *Ensurer) Ensure(ctx context.Context, spec Spec, recreate bool) (Sandbox, error) {
	if !recreate {
		sb, err := e.Driver.Lookup(ctx, spec.Name)
		if err != nil {
			return Sandbox{}, err
		}
		own, err := e.adapt(spec, sb)
		if err != nil {
			return Sandbox{}, err
		}
		if sb.State == Running && spec.Check(sb) == nil && e.matches(own, sb) && e.Driver.Ready(sb, own) {
			return sb, nil
		}
	}
	unlock, err := e.lock(ctx, spec.Name)
	if err != nil {
		return Sandbox{}, err
	}
	defer unlock()
	return e.ensure(ctx, spec, recreate)
}

// adapt returns the spec with the agent and the kind of network of the existing sandbox, if
// any will do.
func (e *Ensurer) adapt(spec Spec, sb Sandbox) (own Spec, err error) {
	if e.AnyAgent == nil || sb.State == NotFound {
		return spec, nil
	}
	own = spec
	own.Agent, own.Image, own.SignDir = sb.Agent, sb.Image, sb.SignDir
	if own.Egress, err = e.AnyAgent(sb.Agent); own.Egress.Policy.Mode != sb.Egress {
		own.Egress.Policy, own.Egress.Amended = egress.Policy{Mode: egress.Deny}, egress.Policy{}
	}
	return own, err
}

// conflicts returns the differences for which a sandbox has to be recreated.
func (e *Ensurer) conflicts(spec Spec, sb Sandbox) []Difference {
	all := spec.conflicts(sb)
	if e.AnyAgent != nil {
		all = slices.DeleteFunc(all, func(d Difference) bool { return sb.Settings != "" && !essential(d.Setting) })
	}
	return all
}

// changes returns the differences that can be applied to an existing sandbox.
func (e *Ensurer) changes(spec Spec, sb Sandbox) []Difference {
	if e.AnyAgent != nil {
		return nil
	}
	return spec.changes(sb)
}

func (e *Ensurer) matches(spec Spec, sb Sandbox) bool {
	return len(e.conflicts(spec, sb)) == 0 && len(e.changes(spec, sb)) == 0
}

// lock takes the lock of a scope, and reports if it has to wait.
func (e *Ensurer) lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := os.MkdirAll(e.LockDir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of locks: %w", err)
	}
	l := flock.New(filepath.Join(e.LockDir, name+".lock"))
	ok, err := l.TryLock()
	if err == nil && !ok {
		e.Report("Waiting for another command that is setting up " + name)
		_, err = l.TryLockContext(ctx, 50*time.Millisecond)
	}
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", l.Path(), err)
	}
	return func() { _ = l.Close() }, nil
}

func (e *Ensurer) ensure(ctx context.Context, spec Spec, recreate bool) (Sandbox, error) {
	sb, err := e.lookupStable(ctx, spec)
	if err != nil {
		return Sandbox{}, err
	}
	own, err := e.adapt(spec, sb)
	if err != nil {
		return Sandbox{}, err
	}
	recreated := recreate || sb.State == NotFound || sb.State == Unknown || len(e.conflicts(own, sb)) > 0
	if recreated {
		err = e.makeWay(ctx, own, sb, recreate)
	}
	if err != nil {
		return Sandbox{}, err
	}
	if recreated {
		own = spec
		if sb, err = e.create(ctx, spec); err != nil {
			return Sandbox{}, err
		}
	} else if err := e.adjust(ctx, own, sb); err != nil {
		return Sandbox{}, err
	}
	err = e.start(ctx, own, &sb)
	if errors.Is(err, ErrStuck) && !recreated {
		recreated = true
		if sb, err = e.replace(ctx, spec, sb); err != nil {
			return Sandbox{}, err
		}
		err = e.start(ctx, spec, &sb)
	}
	if err != nil {
		if e.Failed != nil && ctx.Err() == nil {
			e.Failed(ctx, sb)
		}
		if recreated && ctx.Err() == nil {
			// No command has run in it: the next attempt recreates it.
			err = errors.Join(err, e.Driver.Remove(ctx, sb))
		}
		return Sandbox{}, err
	}
	return sb, nil
}

// makeWay asks before a sandbox is recreated, and removes it, once its image is there.
func (e *Ensurer) makeWay(ctx context.Context, own Spec, sb Sandbox, recreate bool) (err error) {
	switch sb.State {
	case NotFound:
	case Unknown:
		err = e.confirmLost(ctx, sb, recreate)
	default:
		err = e.confirmRecreate(ctx, own, sb, recreate)
	}
	if err == nil {
		err = e.Image(ctx)
	}

	if gone := sb.State == NotFound || sb.State == Unknown; err != nil || gone {
		return err
	}
	return e.discard(ctx, sb)
}

// replace recreates a sandbox that cannot be started. The driver keeps its commits
// for the new one.
func (e *Ensurer) replace(ctx context.Context, spec Spec, sb Sandbox) (Sandbox, error) {
	e.Report(fmt.Sprintf("Warning: sandbox %s cannot be started: recreating it", sb.Name))
	if err := e.Image(ctx); err != nil {
		return Sandbox{}, err
	}
	if err := e.Driver.Remove(ctx, sb); err != nil {
		return Sandbox{}, err
	}
	return e.create(ctx, spec)
}

// lookupStable looks up the sandbox until it is not found, running, stopped or unknown.
func (e *Ensurer) lookupStable(ctx context.Context, spec Spec) (Sandbox, error) {
	deadline := time.Now().Add(stableTimeout)
	for {
		sb, err := e.Driver.Lookup(ctx, spec.Name)
		if err != nil {
			return Sandbox{}, err
		}
		if sb.State == NotFound {
			return sb, nil
		}
		if err := spec.Check(sb); err != nil && !spec.canAdopt(sb) {
			return Sandbox{}, err
		}
		switch sb.State {
		case Running, Stopped, Unknown:
			return sb, nil
		case Dead:
			e.Report("Removing the rest of sandbox " + sb.Name)
			if err := e.Driver.Remove(ctx, sb); err != nil {
				return Sandbox{}, err
			}
		case Creating, Restarting, Removing:
			if time.Now().After(deadline) {
				return Sandbox{}, hint.Wrap(fmt.Errorf("sandbox %s is still %s after %s", sb.Name, sb.State, stableTimeout), "see %q", e.Driver.ListCommand())
			}
		case Paused:
			e.Report(fmt.Sprintf("Unpausing sandbox %s", sb.Name))
			if err := e.Driver.Start(ctx, sb); err != nil {
				return Sandbox{}, err
			}
		default:
			return Sandbox{}, fmt.Errorf("unknown state %q of sandbox %s (driver %s)", sb.State, sb.Name, e.Driver.Name())
		}
		if err := pause(ctx); err != nil {
			return Sandbox{}, err
		}
	}
}

// adjust applies changed limits and network rules to a sandbox, unless a command runs in it.
func (e *Ensurer) adjust(ctx context.Context, spec Spec, sb Sandbox) error {
	changes := e.changes(spec, sb)
	if len(changes) == 0 {
		return nil
	}
	d, ok := e.Driver.(Adjuster)
	if !ok {
		e.Report(fmt.Sprintf("Warning: sandbox %s was not changed (%s): driver %s cannot do that\nHint: recreate it with --recreate", sb.Name, describe(changes), e.Driver.Name()))
		return nil
	}
	if sb.State == Running {
		busy, err := e.Driver.Busy(ctx, sb)
		if err != nil {
			return err
		}
		if busy {
			e.Report(fmt.Sprintf("Warning: sandbox %s was not changed (%s): a command is running in it", sb.Name, describe(changes)))
			return nil
		}
	}
	if err := d.Adjust(ctx, sb, spec); err != nil {
		return hint.Wrap(fmt.Errorf("changing sandbox %s (%s): %w", sb.Name, describe(changes), err), "recreate it with --recreate")
	}
	e.Report(fmt.Sprintf("Changed sandbox %s: %s", sb.Name, describe(changes)))
	return nil
}

// discard removes a sandbox that is about to be recreated.
func (e *Ensurer) discard(ctx context.Context, sb Sandbox) error {
	if e.Exclude != nil {
		done, err := e.Exclude(sb)
		if err != nil {
			return err
		}
		defer done()
	}
	if e.Save != nil {
		if err := e.Save(ctx, sb); err != nil {
			return err
		}
	}
	return e.Driver.Remove(ctx, sb)
}

func (e *Ensurer) create(ctx context.Context, spec Spec) (Sandbox, error) {
	why := ""
	if e.Why != "" {
		why = " (" + e.Why + ")"
	}
	e.Report(fmt.Sprintf("Creating sandbox %s with the %s driver%s", spec.Name, e.Driver.Name(), why))
	deadline := time.Now().Add(stableTimeout)
	for {
		sb, err := e.Driver.Create(ctx, spec)
		if !errors.Is(err, ErrExists) {
			return sb, err
		}
		// Another client is creating it, or had the name until now. A microVM may not be listed yet.
		sb, err = e.lookupStable(ctx, spec)
		if err == nil && sb.State == Unknown {
			err = fmt.Errorf("sandbox %s exists, but its state is unknown (driver %s): %s", sb.Name, e.Driver.Name(), sb.Why)
		}
		if err != nil || sb.State != NotFound {
			return sb, err
		}
		if time.Now().After(deadline) {
			return Sandbox{}, hint.Wrap(fmt.Errorf("the name %s is in use, but not by a sandbox", spec.Name), "see %q", e.Driver.ListCommand())
		}
		if err := pause(ctx); err != nil {
			return Sandbox{}, err
		}
	}
}

// pause waits between two lookups.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(100 * time.Millisecond):
		return nil
	}
}

// start starts and prepares the sandbox.
func (e *Ensurer) start(ctx context.Context, spec Spec, sb *Sandbox) error {
	if sb.State != Running {
		if spec.Egress.CA != nil {
			go spec.Egress.CA() // compared with that of the proxy once the sandbox runs
		}
		if err := e.Driver.Start(ctx, *sb); err != nil {
			return err
		}
		sb.State = Running
	}
	if e.Driver.Ready(*sb, spec) {
		return nil
	}
	return e.Driver.Prepare(ctx, *sb, spec)
}
