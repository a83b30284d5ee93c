package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
)

// allowCommand is the command that allows hosts, which questions name.
const allowCommand = "network allow "

// askAboutBlocked has a task whose run or check failed wait until the user has decided about
// the hosts that were blocked before: another attempt would fail, too. It is not a failed
// attempt. Each host is asked about once, in the whole backlog.
func (l *loop) askAboutBlocked(ctx context.Context, it *iteration) error {
	if l.Backlog == nil || it.class != classNone && it.class != classRun {
		return nil
	}
	for _, slug := range slices.Sorted(slices.Values(it.reopened)) {
		asked, err := l.askAllow(ctx, slug, "its check failed", it.checkRefused)
		if err != nil {
			return err
		}
		if asked {
			l.note = ""
		}
	}
	if it.exhausted() != nil {
		return nil // the sandbox's limit is the reason
	}
	for _, slug := range slices.Sorted(slices.Values(slices.Concat(it.released, it.failedByAgent))) {
		asked, err := l.askAllow(ctx, slug, "the run failed", it.refused)
		if err != nil {
			return err
		}
		if asked {
			is := func(s string) bool { return s == slug }
			it.released, it.failedByAgent = slices.DeleteFunc(it.released, is), slices.DeleteFunc(it.failedByAgent, is)
		}
	}
	return nil
}

// askAllow asks for a task about the blocked hosts that no question has named yet, if any.
func (l *loop) askAllow(ctx context.Context, slug, failed string, blocked []denylog.Refusal) (asked bool, err error) {
	hosts := l.undecided(blocked)
	if len(hosts) == 0 {
		return false, nil
	}
	question := fmt.Sprintf("Allow connections to %s? They were blocked before %s. To allow them, run %q, then answer.",
		strings.Join(hosts, ", "), failed, l.command(allowCommand+strings.Join(hosts, " ")))
	err = l.Backlog.Park(ctx, slug, question, "allowed", "do without them")
	if err == nil {
		err = l.Backlog.Forgive(ctx, slug)
	}
	if err != nil {
		return false, fmt.Errorf("asking about task %s: %w", slug, err)
	}
	l.observe(ctx) // the next task is not asked about the same hosts
	return true, nil
}

// undecided returns rules for the first blocked hosts that no question has named yet.
func (l *loop) undecided(blocked []denylog.Refusal) (hosts []string) {
	known := map[string]bool{}
	for _, task := range l.last.tasks {
		questions := task.Answered
		if task.Question != nil {
			questions = append(slices.Clip(questions), *task.Question)
		}
		for _, q := range questions {
			_, command, _ := strings.Cut(q.Text, l.command(allowCommand))
			named, _, _ := strings.Cut(command, `"`)
			for _, host := range strings.Fields(named) {
				known[host] = true
			}
		}
	}
	for _, target := range blocked {
		host := ruleFor(target)
		if _, err := egress.ParseRule(host); err == nil && !known[host] && len(host) <= deniedNameMax && len(hosts) < deniedInLine {
			known[host] = true
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// ruleFor returns the rule that allows a blocked connection.
func ruleFor(target denylog.Refusal) string {
	switch target.Port {
	case 0, 80, 443: // which a host without a port allows
		return target.Host
	}
	return target.Target()
}
