package microvm

import (
	"context"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/hint"
)

// hooked does something while a program is about to be asked to do something.
type hooked struct {
	program
	do func()
}

func (m hooked) client(ctx context.Context) (client, error) {
	m.do()
	return m.program.client(ctx)
}

// restrict is not disturbed: it holds the lock that do may need.
func (m hooked) restrict(ctx context.Context, d *Driver, name string, policy egress.Policy, applied []string, save func([]string) error) (deviations, error) {
	quiet := *d
	quiet.program = m.program
	return m.program.restrict(ctx, &quiet, name, policy, applied, save)
}

// BeforeCalls is a driver that does something while its program is about to be asked to
// do something.
func (d *Driver) BeforeCalls(do func()) *Driver {
	during := *d
	during.program = hooked{d.program, do}
	return &during
}

// WithHints formats an error and its hints, a line each.
func WithHints(err error) string {
	if err == nil {
		return ""
	}
	return strings.Join(append([]string{err.Error()}, hint.Of(err)...), "\n")
}

// RemoveCommand returns the command by which a user removes a sandbox.
func (d *Driver) RemoveCommand(name string) []string {
	return slices.Concat(strings.Fields(d.cli), d.remove, []string{name})
}
