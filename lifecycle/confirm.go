package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"github.com/docker-ralph/docker-ralph/hint"
)

// confirmLost asks whether to treat a sandbox in state Unknown as removed. Nothing is
// removed: if it still exists, creating it fails.
func (e *Ensurer) confirmLost(ctx context.Context, sb Sandbox, agreed bool) error {
	what := fmt.Sprintf("unknown state of sandbox %s (driver %s)", sb.Name, e.Driver.Name())
	switch {
	case sb.Why == "":
		return hint.Wrap(errors.New(what), "see %q", e.Driver.ListCommand())
	case agreed:
		return nil
	case e.Confirm == nil:
		return hint.Wrap(fmt.Errorf("%s: %s", what, sb.Why), "if the sandbox is gone, recreate it with --recreate; your files are kept")
	}
	ok, err := e.Confirm(ctx, fmt.Sprintf("Warning: %s: %s.\nRecreate it, if it is gone? Your files are kept.", what, sb.Why))
	if err == nil && !ok {
		err = fmt.Errorf("canceled: %s", what)
	}
	return err
}

// confirmRecreate asks whether to recreate a sandbox, which must not be busy. One that no command has
// used has nothing to lose.
func (e *Ensurer) confirmRecreate(ctx context.Context, spec Spec, sb Sandbox, agreed bool) error {
	if sb.State == Running {
		busy, err := e.Driver.Busy(ctx, sb)
		if err != nil {
			return err
		}
		if busy {
			what := ""
			if conflicts := e.conflicts(spec, sb); len(conflicts) > 0 {
				what = " (" + describe(conflicts) + ")"
			}
			return hint.Wrap(fmt.Errorf("cannot recreate sandbox %s%s: a command is running in it", sb.Name, what), "stop it with %q", "docker ralph stop "+sb.Name)
		}
	}
	if !agreed && e.Outdated != nil && e.Outdated(sb) {
		e.Report(fmt.Sprintf("Replacing sandbox %s, which an earlier version of docker-ralph made", sb.Name))
		return nil
	}
	if !agreed && !sb.Unused {
		if e.Confirm == nil {
			return hint.Wrap(fmt.Errorf("sandbox %s no longer matches the configuration (%s)", sb.Name, describe(e.conflicts(spec, sb))), "recreate it with --recreate; your files are kept")
		}
		ok, err := e.Confirm(ctx, fmt.Sprintf("Sandbox %s no longer matches the configuration (%s). Recreate it? Your files are kept.", sb.Name, describe(e.conflicts(spec, sb))))
		if err != nil {
			return err
		}
		if !ok {
			return hint.Wrap(fmt.Errorf("canceled: sandbox %s no longer matches the configuration", sb.Name), "recreate it with --recreate, or undo the change of the configuration")
		}
	}
	return nil
}
