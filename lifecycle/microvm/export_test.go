package microvm

import (
	"context"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/hint"
)

// hooked calls a function before each call of a program.
type hooked struct {
	program
	do func()
}

func (m hooked) client(ctx context.Context) (client, error) {
	m.do()
	return m.program.client(ctx)
}

// restrict does not call it: it holds the lock that do may need.
func (m hooked) restrict(ctx context.Context, d *Driver, name string, policy egress.Policy, applied []string, save func([]string) error) (deviations, error) {
	quiet := *d
	quiet.program = m.program
	return m.program.restrict(ctx, &quiet, name, policy, applied, save)
}

// BeforeCalls returns a driver that calls a function before each call of its program.
func (d *Driver) BeforeCalls(do func()) *Driver {
	during := *d
	during.program = hooked{d.program, do}
	return &during
}

// WithHints formats an error and its hints, one per line.
func WithHints(err error) string {
	if err == nil {
		return ""
	}
	return strings.Join(append([]string{err.Error()}, hint.Of(err)...), "\n")
}

// RemoveCommand returns the user's command that removes a sandbox.
func (d *Driver) RemoveCommand(name string) []string {
	return slices.Concat(strings.Fields(d.cli), d.remove, []string{name})
}
