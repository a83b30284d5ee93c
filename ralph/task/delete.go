package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// deletion is the command line of "delete".
type deletion struct {
	id                     string
	status, spec, category option
	all, confirm           bool
}

func remove(ctx context.Context, s *session, args []string) error {
	var d deletion
	if err := d.parse(args); err != nil {
		return err
	}
	if d.id != "" {
		if err := s.store.Delete(ctx, d.id); err != nil {
			return err
		}
		s.printf("deleted %s\n", d.id)
		return nil
	}
	n, err := s.store.DeleteMatching(ctx, backlog.DeleteFilter{
		All: d.all, Statuses: d.statuses(), SpecRef: d.spec.value, Category: d.category.value,
	})
	if err != nil {
		return err
	}
	s.printf("deleted %d tasks\n", n)
	return nil
}

func (d *deletion) parse(args []string) error {
	err := flags{
		options:  map[string]*option{"--status": &d.status, "--spec": &d.spec, "-r": &d.spec, "--category": &d.category, "-c": &d.category},
		switches: map[string]*bool{"--all": &d.all, "--confirm": &d.confirm},
		positional: func(arg string) error {
			if d.id != "" {
				return fmt.Errorf("unexpected argument '%s'", arg)
			}
			d.id = arg
			return nil
		},
	}.parse(args)
	if err != nil {
		return err
	}
	return d.check()
}

// check refuses combinations that could delete more than intended.
func (d *deletion) check() error {
	narrowed := d.spec.value != "" || d.category.value != ""
	chosen := d.status.value != "" || d.all
	switch {
	case d.id != "" && (chosen || narrowed):
		return errors.New("cannot combine positional ID with filter flags")
	case d.id != "":
		return nil
	case d.all && d.status.value != "":
		return errBothAllAndStatus
	case d.all && !d.confirm:
		return errors.New("--all requires --confirm flag")
	case narrowed && !chosen:
		return errors.New("--spec and --category require --status or --all")
	case !chosen:
		return missing("task ID", "delete <id>")
	case slices.Contains(d.statuses(), backlog.StatusDeleted):
		return errors.New("cannot use 'deleted' as a status filter")
	}
	return nil
}

// statuses returns the values untrimmed: " open" matches nothing.
func (d *deletion) statuses() []string { return strings.Split(d.status.value, ",") }
