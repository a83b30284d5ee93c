package selftest

import (
	"context"
	"fmt"
	"strings"

	"github.com/moby/moby/client"
)

// Inventory tells what an engine has.
type Inventory interface {
	ContainerList(context.Context, client.ContainerListOptions) (client.ContainerListResult, error)
	VolumeList(context.Context, client.VolumeListOptions) (client.VolumeListResult, error)
	NetworkList(context.Context, client.NetworkListOptions) (client.NetworkListResult, error)
}

// Labelled names everything on an engine that carries a label, given as
// KEY=value.
func Labelled(ctx context.Context, engine Inventory, label string) ([]string, error) {
	filter := make(client.Filters).Add("label", label)
	containers, err := engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return nil, fmt.Errorf("looking for containers: %w", err)
	}
	volumes, err := engine.VolumeList(ctx, client.VolumeListOptions{Filters: filter})
	if err != nil {
		return nil, fmt.Errorf("looking for volumes: %w", err)
	}
	networks, err := engine.NetworkList(ctx, client.NetworkListOptions{Filters: filter})
	if err != nil {
		return nil, fmt.Errorf("looking for networks: %w", err)
	}
	var found []string
	for _, c := range containers.Items {
		name := c.ID
		if len(c.Names) > 0 {
			name = strings.TrimPrefix(c.Names[0], "/")
		}
		found = append(found, "the container "+name)
	}
	for _, v := range volumes.Items {
		found = append(found, "the volume "+v.Name)
	}
	for _, n := range networks.Items {
		found = append(found, "the network "+n.Name)
	}
	return found, nil
}
