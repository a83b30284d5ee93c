package microvm

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// deviations describes how a program's rules differ from a policy.
type deviations struct {
	// looser describes what the sandbox reaches beyond the policy.
	looser []string
	// stricter describes other differences.
	stricter []string
}

// Restrict implements [lifecycle.Restricter]. It compares again with the user's rules
// for all sandboxes, which may have changed.
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
		return hint.Wrap(fmt.Errorf("no record of sandbox %s: another command has removed it", sb.Name), "run the command again")
	}
	is, err := d.restrict(ctx, d, sb.Name, policy, rec.Applied, func(applied []string) error {
		rec.Applied = applied
		return d.records().write(rec)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && e.Now {
		return err
	}
	if err != nil {
		is.looser = append(is.looser, err.Error())
	}
	if e.Asked && len(is.looser) > 0 {
		return hint.Wrap(&lifecycle.LooserError{Driver: d.name, Mode: policy.Mode, Why: is.looser}, "use the container driver")
	}
	return d.warnOnce(rec, policy.Mode, is)
}

// CreatedPolicy implements [lifecycle.Restricter].
func (d *Driver) CreatedPolicy(name string) (policy egress.Policy, err error) {
	rec, _, err := d.records().read(name)
	if err == nil && rec.Egress != "" {
		if err = json.Unmarshal(rec.Policy, &policy); err != nil {
			err = fmt.Errorf("reading the network policy of sandbox %s: %w", name, err)
		}
	}
	return policy, err
}

// warnOnce warns once per sandbox if its policy is not enforced completely.
func (d *Driver) warnOnce(rec record, mode egress.Mode, is deviations) error {
	said := strings.Join(append(is.looser, is.stricter...), "; ")
	if said == rec.Warned {
		return nil
	}
	if said != "" {
		d.Report(fmt.Sprintf("Warning: the network policy %q is not fully enforced by %s: %s", mode, d.name, said))
	}
	rec.Warned = said
	return d.records().write(rec)
}

// lockRecord locks a sandbox's rules and record against other commands.
func (d *Driver) lockRecord(ctx context.Context, name string) (unlock func(), err error) {
	return d.lock(ctx, d.name+"-"+name+".record")
}

// ForeignRules implements [lifecycle.Restricter].
func (d *Driver) ForeignRules(ctx context.Context, name string) ([]lifecycle.ForeignRule, error) {
	rec, _, err := d.records().read(name)
	if err != nil {
		return nil, err
	}
	rules, err := d.otherRules(ctx, d, name, rec.Applied)
	if err != nil {
		return nil, fmt.Errorf("listing the network rules of %s: %w", d.name, err)
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
