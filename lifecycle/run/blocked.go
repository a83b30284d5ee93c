package run

import (
	"context"
	"fmt"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/network"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// refusals counts what was refused, each host once.
type refusals struct {
	times map[refusal]int
	order []refusal
}

type refusal struct {
	target string
	hint   string // what would allow it
}

func (r *refusals) add(host string, port uint16, hint string, times int) {
	one := refusal{egress.Printable(host), hint}
	if port != 0 {
		one.target += fmt.Sprintf(":%d", port)
	}
	if r.times == nil {
		r.times = map[refusal]int{}
	}
	if r.times[one] == 0 {
		r.order = append(r.order, one)
	}
	r.times[one] += times
}

// refusedMax is how many hosts are told at the end of a command.
const refusedMax = 10

func tell(h host.Host, r refusals) {
	for i, one := range r.order {
		if i == refusedMax {
			h.Report(fmt.Sprintf("blocked: %d more, see \"docker ralph network log\"", len(r.order)-i))
			return
		}
		remedy := ""
		if one.hint != "" {
			remedy = ", allow with: docker ralph network allow " + one.hint
		}
		h.Report(fmt.Sprintf("blocked: %s ×%d%s", one.target, r.times[one], remedy))
	}
}

// watchBlocked returns a function that reports what was refused since now.
// While the command runs, it reports failures on the way to the agent's model.
func (h session) watchBlocked(ctx context.Context, r Ready, sb lifecycle.Sandbox, command string) func() {
	ctx = context.WithoutCancel(ctx)
	switch d := r.Driver.(type) {
	case *container.Driver:
		if begun := time.Now(); sb.Proxy != "" && command != host.TaskCommand { // which uses no network
			watch, stop := h.watchModel(ctx, r, sb, begun, command)
			return func() {
				stop()
				reportDecisions(ctx, h.Host, d, sb, begun, watch)
			}
		}
	case lifecycle.Restricter:
		if sb.Egress != "" && command != host.TaskCommand {
			before, err := d.Requests(ctx, sb.Name)
			return func() { reportRequests(ctx, h.Host, d, sb, before, err) }
		}
	}
	return func() {}
}

// reportDecisions reports what a container's proxy has refused since a moment.
func reportDecisions(ctx context.Context, h host.Host, d *container.Driver, sb lifecycle.Sandbox, since time.Time, watch *modelWatch) {
	var found refusals
	err := network.Decisions(ctx, d, sb, since, false, func(decision egress.Decision) {
		if decision.Decision == egress.Refused {
			found.add(decision.Host, decision.Port, decision.Hint, 1)
		}
		watch.see(decision)
	})
	if err != nil {
		h.Report(fmt.Sprintf("Warning: %v", err))
	}
	tell(h, found)
}

// reportRequests reports what the program of a microVM has refused. It counts from
// its own start on, so what was there before is taken away.
func reportRequests(ctx context.Context, h host.Host, d lifecycle.Restricter, sb lifecycle.Sandbox, before []lifecycle.Request, err error) {
	var after []lifecycle.Request
	if err == nil {
		after, err = d.Requests(ctx, sb.Name)
	}
	if err != nil {
		h.Report(fmt.Sprintf("Warning: listing blocked hosts: %v", err))
		return
	}
	var found refusals
	for _, r := range network.Since(before, after) {
		if r.Refused {
			found.add(r.Host, r.Port, network.Hint(sb.Egress, r), r.Count)
		}
	}
	tell(h, found)
}
