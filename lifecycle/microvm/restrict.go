package microvm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// Kept is how well a program keeps a sandbox to a policy.
type Kept struct {
	// Looser says, in clauses, what the sandbox reaches that the policy does not
	// allow.
	Looser []string
	// Stricter says, in clauses, what else is not as the policy has it.
	Stricter []string
}

// StandingRule is a rule for a sandbox's network that somebody else has made.
type StandingRule struct {
	Host     string // in the program's own words
	Decision string // [egress.Allowed] or [egress.Refused]
	Origin   string
}

// LooserError says that a program does not keep a sandbox to the policy that was
// asked for.
type LooserError struct {
	Driver string
	Mode   egress.Mode
	Why    []string // clauses
}

func (e *LooserError) Error() string {
	return fmt.Sprintf("the network policy %q cannot be kept with %s: %s. The driver \"container\" keeps it", e.Mode, e.Driver, strings.Join(e.Why, "; "))
}

// Restrict keeps a running sandbox to a policy. It can be repeated, and has to
// be before an agent is started: what the user has told the program for all
// sandboxes may have changed. Where the program falls short of a policy that was
// asked for, it is an error; of another, a warning, once.
func (d *Driver) Restrict(ctx context.Context, sb lifecycle.Sandbox, e lifecycle.Egress) error {
	policy := e.Amended
	if policy.Mode == "" {
		policy = e.Policy
	}
	if policy.Mode == "" {
		return nil
	}
	unlock, err := d.lockRecord(ctx, sb.Name)
	if err != nil {
		return err
	}
	defer unlock()
	rec, known, err := d.records().read(sb.Name)
	if err != nil {
		return err
	}
	if !known {
		return fmt.Errorf("nothing is known of the sandbox %s any more: somebody has removed it, try again", sb.Name)
	}
	kept, err := d.Dialect.Restrict(ctx, sb.Name, policy, rec.Told, func(told []string) error {
		rec.Told = told
		return d.records().write(rec)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		kept.Looser = append(kept.Looser, d.explain(err).Error())
	}
	if e.Asked && len(kept.Looser) > 0 {
		return &LooserError{Driver: d.Name(), Mode: policy.Mode, Why: kept.Looser}
	}
	return d.warnOnce(rec, policy.Mode, kept)
}

// MadeFor returns the network policy that a sandbox was made for.
func (d *Driver) MadeFor(name string) (policy egress.Policy, err error) {
	rec, _, err := d.records().read(name)
	if err == nil && rec.Egress != "" {
		if err = json.Unmarshal(rec.Policy, &policy); err != nil {
			err = fmt.Errorf("reading the network policy of the sandbox %s: %w", name, err)
		}
	}
	return policy, err
}

// warnOnce tells the user once for each sandbox where a policy is not kept.
func (d *Driver) warnOnce(rec record, mode egress.Mode, kept Kept) error {
	said := strings.Join(append(kept.Looser, kept.Stricter...), "; ")
	if said == rec.Warned {
		return nil
	}
	if said != "" {
		d.Report(fmt.Sprintf("Warning: the network policy %q is not kept in full with %s: %s", mode, d.Name(), said))
	}
	rec.Warned = said
	return d.records().write(rec)
}

// lockRecord keeps two dispatches from changing one sandbox's rules, and what is
// known of it, at once.
func (d *Driver) lockRecord(ctx context.Context, name string) (unlock func(), err error) {
	lock := flock.New(filepath.Join(d.StateDir, "locks", d.Name()+"-"+name+".record"))
	if err := os.MkdirAll(filepath.Dir(lock.Path()), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder for locks: %w", err)
	}
	if _, err := lock.TryLockContext(ctx, 50*time.Millisecond); err != nil {
		return nil, fmt.Errorf("waiting for another dispatch that changes what is known of %s: %w", name, err)
	}
	return func() { _ = lock.Close() }, nil
}

// Standing returns the rules for a sandbox's network that are not ours, as far
// as the program tells.
func (d *Driver) Standing(ctx context.Context, name string) ([]StandingRule, error) {
	rec, _, err := d.records().read(name)
	if err != nil {
		return nil, err
	}
	rules, err := d.Dialect.Standing(ctx, name, rec.Told)
	if err != nil {
		return nil, fmt.Errorf("asking %s for its network rules: %w", d.Name(), d.explain(err))
	}
	return rules, nil
}

// Requests returns what went to the network from a sandbox of that name, and
// what was refused: counted by host, not one by one.
func (d *Driver) Requests(ctx context.Context, name string) ([]Request, error) {
	out, err := d.call(ctx, call{limitList, d.Dialect.Log(name)})
	if err != nil {
		return nil, fmt.Errorf("reading the network log: %w", err)
	}
	requests, err := ParseLog(out, name)
	if err != nil {
		return nil, fmt.Errorf("reading the network log: the answer of %q cannot be read: %w", d.typed(ctx, call{args: d.Dialect.Log(name)}), err)
	}
	return requests, nil
}
