package lifecycle

import (
	"context"
	"fmt"
)

// Preview describes what [Ensurer.Ensure] would do, without doing it.
func (e *Ensurer) Preview(ctx context.Context, spec Spec, recreate bool) (string, error) {
	sb, err := e.Driver.Lookup(ctx, spec.Name)
	if err != nil {
		return "", err
	}
	if sb.State == NotFound {
		return "would be created", nil
	}
	if err := spec.Check(sb); err != nil && !spec.canAdopt(sb) {
		return "", err
	}
	own, err := e.adapt(spec, sb)
	if err != nil {
		return "", err
	}
	conflicts, changes := e.conflicts(own, sb), e.changes(own, sb)
	what := fmt.Sprintf("is %s", sb.State)
	switch {
	case recreate:
		what += ", and would be recreated"
	case len(conflicts) > 0:
		what += fmt.Sprintf(", and has to be recreated with --recreate (%s)", describe(conflicts))
	case len(changes) > 0:
		if _, ok := e.Driver.(Adjuster); !ok {
			return what + fmt.Sprintf(", and would not be changed without --recreate (%s)", describe(changes)), nil
		}
		what += fmt.Sprintf(", and would be changed (%s)", describe(changes))
	case sb.State != Running:
		what += ", and would be started"
	}
	return what, nil
}
