package container

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// processReserve is the number of processes and threads that ralph needs to start.
const processReserve = 16

// ProcessLimit returns the process limit of a sandbox that has reached it, or else 0.
func (d *Driver) ProcessLimit(ctx context.Context, sb lifecycle.Sandbox) (limit uint64, err error) {
	res, err := d.API.ContainerStats(ctx, sb.ID, client.ContainerStatsOptions{})
	if err != nil {
		return 0, fmt.Errorf("counting the processes of %s: %w", sb.Name, err)
	}
	defer func() { _ = res.Body.Close() }() // only read
	var stats container.StatsResponse
	if err := json.NewDecoder(res.Body).Decode(&stats); err != nil {
		return 0, fmt.Errorf("counting the processes of %s: %w", sb.Name, err)
	}
	if p := stats.PidsStats; p.Limit > 0 && p.Current+processReserve > p.Limit {
		return p.Limit, nil
	}
	return 0, nil
}

// agentCommand matches commands that can start an agent.
var agentCommand = lazyregexp.New(`^\S*ralph (build|plan|run|shell)( |$)`)

// Working reports whether a command that can start an agent is running in a sandbox. It
// starts no process in there.
func (d *Driver) Working(ctx context.Context, sb lifecycle.Sandbox) (bool, error) {
	res, err := d.API.ContainerTop(ctx, sb.ID, client.ContainerTopOptions{Arguments: []string{"-eo", "pid,args"}})
	if err != nil {
		return false, fmt.Errorf("listing the processes of %s: %w", sb.Name, err)
	}
	return slices.ContainsFunc(res.Processes, func(row []string) bool {
		return len(row) > 0 && agentCommand().MatchString(row[len(row)-1])
	}), nil
}
