package microvm

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// kept is how well a program keeps a sandbox to a policy.
type kept struct {
	// looser says, in clauses, what the sandbox reaches that the policy does not
	// allow.
	looser []string
	// stricter says, in clauses, what else is not as the policy has it.
	stricter []string
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
	is, err := d.restrict(ctx, d, sb.Name, policy, rec.Told, func(told []string) error {
		rec.Told = told
		return d.records().write(rec)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		is.looser = append(is.looser, err.Error())
	}
	if e.Asked && len(is.looser) > 0 {
		return &LooserError{Driver: d.name, Mode: policy.Mode, Why: is.looser}
	}
	return d.warnOnce(rec, policy.Mode, is)
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
func (d *Driver) warnOnce(rec record, mode egress.Mode, is kept) error {
	said := strings.Join(append(is.looser, is.stricter...), "; ")
	if said == rec.Warned {
		return nil
	}
	if said != "" {
		d.Report(fmt.Sprintf("Warning: the network policy %q is not kept in full with %s: %s", mode, d.name, said))
	}
	rec.Warned = said
	return d.records().write(rec)
}

// lockRecord keeps two dispatches from changing one sandbox's rules, and what is
// known of it, at once.
func (d *Driver) lockRecord(ctx context.Context, name string) (unlock func(), err error) {
	return d.lock(ctx, d.name+"-"+name+".record")
}

// Standing returns the rules for a sandbox's network that are not ours, as far
// as the program tells.
func (d *Driver) Standing(ctx context.Context, name string) ([]StandingRule, error) {
	rec, _, err := d.records().read(name)
	if err != nil {
		return nil, err
	}
	rules, err := d.standing(ctx, d, name, rec.Told)
	if err != nil {
		return nil, fmt.Errorf("asking %s for its network rules: %w", d.name, err)
	}
	return rules, nil
}

// Requests returns what went to the network from a sandbox of that name, and
// what was refused: counted by host, not one by one.
func (d *Driver) Requests(ctx context.Context, name string) ([]Request, error) {
	out, err := d.call(ctx, limitList, d.log(name)...)
	if err != nil {
		return nil, fmt.Errorf("reading the network log: %w", err)
	}
	requests, err := ParseLog(out, name)
	if err != nil {
		return nil, fmt.Errorf("reading the network log of %s: %w", d.name, err)
	}
	return requests, nil
}
