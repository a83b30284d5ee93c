package microvm

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/hint"

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

// Restrict implements [lifecycle.Restricter]. What the user has told the program for
// all sandboxes may have changed since the last time.
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
		return hint.Wrap(&lifecycle.LooserError{Driver: d.name, Mode: policy.Mode, Why: is.looser}, "use the container driver")
	}
	return d.warnOnce(rec, policy.Mode, is)
}

// MadeFor implements [lifecycle.Restricter].
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

// Standing implements [lifecycle.Restricter].
func (d *Driver) Standing(ctx context.Context, name string) ([]lifecycle.StandingRule, error) {
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

// Requests implements [lifecycle.Restricter].
func (d *Driver) Requests(ctx context.Context, name string) ([]lifecycle.Request, error) {
	out, err := d.call(ctx, limitList, d.log(name)...)
	if err != nil {
		return nil, fmt.Errorf("reading the network log: %w", err)
	}
	requests, err := parseLog(out, name)
	if err != nil {
		return nil, fmt.Errorf("reading the network log of %s: %w", d.name, err)
	}
	return requests, nil
}
