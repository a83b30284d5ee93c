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

// blockedHosts counts blocked connections by host.
type blockedHosts struct {
	times map[blockedHost]int
	order []blockedHost
}

type blockedHost struct {
	target string
	hint   string // the rule that would allow it
}

func (r *blockedHosts) add(host string, port uint16, hint string, times int) {
	one := blockedHost{egress.Printable(host), hint}
	if port != 0 {
		one.target += fmt.Sprintf(":%d", port)
	}
	if r.times == nil {
		r.times = map[blockedHost]int{}
	}
	if r.times[one] == 0 {
		r.order = append(r.order, one)
	}
	r.times[one] += times
}

// blockedMax is how many hosts are reported at the end of a command.
const blockedMax = 10

func reportBlocked(h host.Host, r blockedHosts) {
	for i, one := range r.order {
		if i == blockedMax {
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

// watchBlocked returns a function that reports connections that were blocked since this call.
// Failed requests to the agent's model are reported at once.
func (h session) watchBlocked(ctx context.Context, r Ready, sb lifecycle.Sandbox) func() {
	ctx = context.WithoutCancel(ctx)
	switch d := r.Driver.(type) {
	case *container.Driver:
		if begun := time.Now(); sb.Proxy != "" {
			watch, stop := h.watchModel(ctx, r, sb, begun)
			return func() {
				stop()
				reportDecisions(ctx, h.Host, d, sb, begun, watch)
			}
		}
	case lifecycle.Restricter:
		if sb.Egress != "" {
			before, err := d.Requests(ctx, sb.Name)
			return func() { reportRequests(ctx, h.Host, d, sb, before, err) }
		}
	}
	return func() {}
}

// reportDecisions reports what the proxy of a container has blocked.
func reportDecisions(ctx context.Context, h host.Host, d *container.Driver, sb lifecycle.Sandbox, since time.Time, watch *modelWatch) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	var found blockedHosts
	err := network.Decisions(ctx, d, sb, since, false, func(decision egress.Decision) {
		if decision.Decision == egress.Refused {
			found.add(decision.Host, decision.Port, decision.Hint, 1)
		}
		watch.report(decision)
	})
	if err != nil {
		h.Warn(err)
	}
	reportBlocked(h, found)
}

// reportRequests reports what a microVM program has blocked. Its counters start with the
// sandbox: earlier ones are subtracted.
func reportRequests(ctx context.Context, h host.Host, d lifecycle.Restricter, sb lifecycle.Sandbox, before []lifecycle.Request, err error) {
	var after []lifecycle.Request
	if err == nil {
		after, err = d.Requests(ctx, sb.Name)
	}
	if err != nil {
		h.Warn(fmt.Errorf("listing blocked hosts: %w", err))
		return
	}
	var found blockedHosts
	for _, r := range network.Since(before, after) {
		if r.Refused {
			found.add(r.Host, r.Port, network.Hint(sb.Egress, r), r.Count)
		}
	}
	reportBlocked(h, found)
}
