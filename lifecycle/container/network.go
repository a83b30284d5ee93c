package container

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/egress/firewall"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// egressNetwork is what the proxies of all sandboxes reach the world through.
// No agent ever joins it.
const egressNetwork = "ralph-egress"

// networkLimit bounds the search for a range of addresses that is free.
const networkLimit = 256

// ourRange holds the networks of all sandboxes, 16 addresses each. The engine's
// own ranges are enough for about thirty networks only. As the host has no
// address in them, they cannot hide a network that it reaches.
func ourRange() netip.Prefix { return netip.MustParsePrefix("10.242.0.0/16") }

// sandboxNetwork is one sandbox's.
type sandboxNetwork struct {
	name    string
	gateway netip.Addr // which nobody shall have, unless the network is open
	proxy   netip.Addr
	agent   netip.Addr
}

// networkBits is the length of a sandbox's range of addresses.
const networkBits = 28

func networkAt(index uint32, name string) (sandboxNetwork, netip.Prefix) {
	base := ourRange().Addr().As4()
	count := uint32(1) << (networkBits - ourRange().Bits())
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(base[:])+index%count<<(32-networkBits))
	return networkOf(name, netip.AddrFrom4(b))
}

// networkOf is the network in which an address is.
func networkOf(name string, in netip.Addr) (sandboxNetwork, netip.Prefix) {
	subnet := netip.PrefixFrom(in, networkBits).Masked()
	gateway := subnet.Addr().Next()
	proxy := gateway.Next()
	return sandboxNetwork{name: name, gateway: gateway, proxy: proxy, agent: proxy.Next()}, subnet
}

// newNetworkName is the name of the network of a sandbox that is about to be
// created. It is used once: whoever makes a sandbox of the same name at the same time
// has another one, and removes only that.
func newNetworkName(sandbox string) string { return sandbox + "." + strings.ToLower(rand.Text()[:8]) }

// firstIndex is that of the range of addresses that is tried first for a network.
func firstIndex(name string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return h.Sum32()
}

// makeNetwork makes the network of a sandbox that is about to be created.
func (d *Driver) makeNetwork(ctx context.Context, spec lifecycle.Spec, name string) (sandboxNetwork, error) {
	start := firstIndex(name)
	for i := range uint32(networkLimit) {
		n, subnet := networkAt(start+i, name)
		_, err := d.API.NetworkCreate(ctx, name, networkOptions(spec, n, subnet))
		if err == nil {
			return n, nil
		}
		if !strings.Contains(err.Error(), "overlap") {
			return sandboxNetwork{}, fmt.Errorf("making the network of the sandbox %s: %w", spec.Name, err)
		}
	}
	return sandboxNetwork{}, fmt.Errorf("making the network of the sandbox %s: no range of addresses in %s is free. Remove sandboxes with \"docker ralph clean\"", spec.Name, ourRange())
}

func networkOptions(spec lifecycle.Spec, n sandboxNetwork, subnet netip.Prefix) client.NetworkCreateOptions {
	without := false
	opts := client.NetworkCreateOptions{
		Driver:     "bridge",
		EnableIPv6: &without, // said explicitly: the engine's default may be otherwise
		// What is given out by itself comes from the upper half.
		IPAM:   &network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet, Gateway: n.gateway, IPRange: upperHalf(subnet)}}},
		Labels: ownLabels(spec.Name, roleNetwork),
	}
	if spec.Egress.Policy.Mode == egress.AllowAll {
		opts.Options = map[string]string{"com.docker.network.bridge.enable_icc": "false"}
		return opts
	}
	opts.Internal = true
	opts.Options = map[string]string{
		// An internal network leads to the host all the same, unless the host has
		// no address there. Engines before 28 know the first way only, and ignore
		// the other two: what came of it, the canary finds out.
		"com.docker.network.bridge.inhibit_ipv4":      "true",
		"com.docker.network.bridge.gateway_mode_ipv4": "isolated",
		"com.docker.network.bridge.gateway_mode_ipv6": "isolated",
	}
	return opts
}

func upperHalf(p netip.Prefix) netip.Prefix {
	b := p.Addr().As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+1<<(31-p.Bits()))
	return netip.PrefixFrom(netip.AddrFrom4(b), p.Bits()+1)
}

// surroundings are the networks that the engine has.
type surroundings struct {
	egress   string         // ID of the network to the world
	twins    []string       // IDs of younger ones of that name, which nobody uses
	gateways []netip.Addr   // addresses of the engine's machine
	subnets  []netip.Prefix // in which no host of the internet is
}

// digest names those of the networks that are closed for no other reason: rules
// that were made when there were others are out of date.
func (s surroundings) digest() string {
	var public []string
	for _, n := range s.subnets {
		if !slices.ContainsFunc(firewall.Never(), func(never netip.Prefix) bool { return never.Bits() <= n.Bits() && never.Contains(n.Addr()) }) {
			public = append(public, n.String())
		}
	}
	slices.Sort(public)
	return strings.Join(slices.Compact(public), " ")
}

// lookAround lists the engine's networks, and makes that to the world if it is
// missing.
func (d *Driver) lookAround(ctx context.Context) (surroundings, error) {
	for range 3 {
		res, err := d.API.NetworkList(ctx, client.NetworkListOptions{})
		if err != nil {
			return surroundings{}, fmt.Errorf("listing the engine's networks: %w", err)
		}
		around, err := survey(res.Items)
		if err != nil || around.egress != "" {
			d.removeTwins(ctx, around)
			d.note(around, err)
			return around, err
		}
		without := false
		_, err = d.API.NetworkCreate(ctx, egressNetwork, client.NetworkCreateOptions{
			Driver:     "bridge",
			EnableIPv6: &without,
			Options:    map[string]string{"com.docker.network.bridge.enable_icc": "false"}, // proxies have no business with one another
			Labels:     map[string]string{labelCreatedBy: createdBy, labelRole: roleEgress},
		})
		if err != nil && !errdefs.IsConflict(err) {
			return surroundings{}, fmt.Errorf("making the network %s: %w", egressNetwork, err)
		}
	}
	return surroundings{}, fmt.Errorf("making the network %s: it is gone as soon as it is there", egressNetwork)
}

// note keeps what was seen last.
func (d *Driver) note(around surroundings, err error) {
	if err == nil {
		d.engine.mu.Lock()
		defer d.engine.mu.Unlock()
		d.engine.around = &around
	}
}

// removeTwins removes networks that were made at the same moment as the one that
// everybody takes. Old engines start nothing in a network whose name is not the
// only one. Others may be removing them as well.
func (d *Driver) removeTwins(ctx context.Context, around surroundings) {
	for _, id := range around.twins {
		_, _ = d.API.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
	}
}

// ambiguous tells of a network that has a twin still.
func ambiguous(err error) bool {
	return err != nil && strings.Contains(err.Error(), "network "+egressNetwork+" is ambiguous")
}

// survey reads a list of networks. Two that were made at the same moment can
// have the same name: everybody takes the older one.
func survey(all []network.Summary) (surroundings, error) {
	slices.SortFunc(all, func(a, b network.Summary) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	var around surroundings
	for _, n := range all {
		if n.Name == egressNetwork && around.egress == "" {
			if n.Labels[labelCreatedBy] != createdBy {
				return surroundings{}, &lifecycle.ForeignError{Name: egressNetwork, What: "a network"}
			}
			around.egress = n.ID
		} else if n.Name == egressNetwork && n.Labels[labelCreatedBy] == createdBy {
			around.twins = append(around.twins, n.ID)
		}
		for _, c := range n.IPAM.Config {
			if !c.Subnet.IsValid() || !c.Subnet.Addr().Is4() {
				continue
			}
			around.subnets = append(around.subnets, c.Subnet)
			if n.Driver == "bridge" && !n.Internal && len(around.gateways) < 4 {
				gateway := c.Gateway
				if !gateway.IsValid() {
					gateway = c.Subnet.Masked().Addr().Next() // which old engines leave unsaid
				}
				around.gateways = append(around.gateways, gateway)
			}
		}
	}
	return around, nil
}

// sweepWall removes what stands around the sandbox of that name: its proxy,
// helpers, and networks with what holds them, but for those that labels name.
func (d *Driver) sweepWall(ctx context.Context, name string, keep map[string]string) error {
	mine := make(client.Filters).Add("label", labelCreatedBy+"="+createdBy).Add("label", labelSandbox+"="+name).Add("label", labelRole)
	containers, err := d.API.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: mine})
	if err != nil {
		return fmt.Errorf("looking for the proxy of %s: %w", name, err)
	}
	var errs []error
	for _, c := range containers.Items {
		if c.ID != keep[labelNetns] {
			errs = append(errs, d.removeContainer(ctx, c.ID))
		}
	}
	networks, err := d.API.NetworkList(ctx, client.NetworkListOptions{Filters: mine})
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("looking for the network of %s: %w", name, err))...)
	}
	for _, n := range networks.Items {
		if n.Name == keep[labelNetwork] {
			continue
		}
		// Who has a sandbox wants no other's network gone at any price: one that is in
		// use now is of somebody who was too late with a sandbox of the same name, and
		// removes it himself.
		if err := d.removeNetwork(ctx, n.ID); keep == nil || !isInUse(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func isInUse(err error) bool {
	return err != nil && strings.Contains(err.Error(), "active endpoints")
}

// removeContainer removes a container and the volumes without a name that it has.
// If somebody else is removing it, that is waited for: what it uses, its network
// above all, is in use until then.
func (d *Driver) removeContainer(ctx context.Context, id string) error {
	_, err := d.API.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsConflict(err) {
		err = d.awaitRemoval(ctx, id)
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing a container: %w", err)
	}
	return nil
}

// removalPatience is how long the removal of a container may take.
const removalPatience = 30 * time.Second

func (d *Driver) awaitRemoval(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, removalPatience, fmt.Errorf("somebody else has been removing %s for %s", id, removalPatience))
	defer cancel()
	wait := d.API.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
	select {
	case res := <-wait.Result:
		if res.Error != nil {
			return errors.New(res.Error.Message)
		}
		return nil
	case err := <-wait.Error:
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
}

func (d *Driver) removeNetwork(ctx context.Context, id string) error {
	_, err := d.API.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing a network: %w", err)
	}
	return nil
}
