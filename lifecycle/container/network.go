package container

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/egress/firewall"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
)

// egressNetwork is the network of all proxies. Sandboxes never join it.
const egressNetwork = "ralph-egress"

// networkLimit bounds the search for a free subnet.
const networkLimit = 256

// addressPool contains the subnets of all sandboxes, 16 addresses each. The engine's
// default pools are enough for about thirty networks only. The host has no address in
// them, so they cannot shadow a network that it reaches.
func addressPool() netip.Prefix { return netip.MustParsePrefix("10.242.0.0/16") }

// sandboxNetwork is the network of one sandbox.
type sandboxNetwork struct {
	name    string
	gateway netip.Addr // unused unless the network is open
	proxy   netip.Addr
	agent   netip.Addr
}

// networkBits is the prefix length of a sandbox's subnet.
const networkBits = 28

func networkAt(index uint32, name string) (sandboxNetwork, netip.Prefix) {
	base := addressPool().Addr().As4()
	count := uint32(1) << (networkBits - addressPool().Bits())
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(base[:])+index%count<<(32-networkBits))
	return networkOf(name, netip.AddrFrom4(b))
}

// networkOf returns the network that contains an address.
func networkOf(name string, in netip.Addr) (sandboxNetwork, netip.Prefix) {
	subnet := netip.PrefixFrom(in, networkBits).Masked()
	gateway := subnet.Addr().Next()
	proxy := gateway.Next()
	return sandboxNetwork{name: name, gateway: gateway, proxy: proxy, agent: proxy.Next()}, subnet
}

// newNetworkName returns a unique name for the network of a new sandbox, so that
// concurrent creations of the same sandbox do not remove each other's network.
func newNetworkName(sandbox string) string { return sandbox + "." + strings.ToLower(rand.Text()[:8]) }

// firstIndex returns the index of the subnet that is tried first.
func firstIndex(name string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return h.Sum32()
}

// createNetwork creates the network of a new sandbox of a client.
func (d *Driver) createNetwork(ctx context.Context, spec lifecycle.Spec, of, name string) (sandboxNetwork, error) {
	start := firstIndex(name)
	for i := range uint32(networkLimit) {
		n, subnet := networkAt(start+i, name)
		_, err := d.API.NetworkCreate(ctx, name, networkOptions(engine.PartLabels(spec.Name, of, roleNetwork), n, subnet))
		if err == nil {
			return n, nil
		}
		if !strings.Contains(err.Error(), "overlap") {
			return sandboxNetwork{}, fmt.Errorf("creating the network of sandbox %s: %w", spec.Name, err)
		}
	}
	return sandboxNetwork{}, hint.Wrap(fmt.Errorf("creating the network of sandbox %s: no free subnet in %s", spec.Name, addressPool()), "remove sandboxes with %q", "docker ralph clean")
}

func networkOptions(l map[string]string, n sandboxNetwork, subnet netip.Prefix) client.NetworkCreateOptions {
	without := false
	opts := client.NetworkCreateOptions{
		Driver:     "bridge",
		EnableIPv6: &without, // overrides the engine's default
		// Addresses are assigned automatically from the upper half only.
		IPAM:   &network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet, Gateway: n.gateway, IPRange: upperHalf(subnet)}}},
		Labels: l,
	}
	opts.Internal = true
	opts.Options = map[string]string{
		// Without these, the host is reachable in an internal network. Engines before
		// 28 ignore the last two. The canary verifies the result.
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

// engineNetworks are the networks of the engine.
type engineNetworks struct {
	egress     string         // ID of the network of proxies
	egressMTU  string         // of that network
	mtu        string         // of the engine's default bridge, which its daemon.json sets
	duplicates []string       // IDs of unused younger networks of that name
	gateways   []netip.Addr   // addresses of the engine's host
	subnets    []netip.Prefix // of local networks
}

// digest identifies the subnets that are only blocked because they are networks of the
// engine. Rules made for other ones are outdated.
func (s engineNetworks) digest() string {
	var public []string
	for _, n := range s.subnets {
		if !slices.ContainsFunc(firewall.Never(), func(never netip.Prefix) bool { return never.Bits() <= n.Bits() && never.Contains(n.Addr()) }) {
			public = append(public, n.String())
		}
	}
	slices.Sort(public)
	return strings.Join(slices.Compact(public), " ")
}

// listNetworks lists the engine's networks, and creates that of proxies if it is
// missing.
func (d *Driver) listNetworks(ctx context.Context) (engineNetworks, error) {
	for range 3 {
		res, err := d.API.NetworkList(ctx, client.NetworkListOptions{})
		if err != nil {
			return engineNetworks{}, fmt.Errorf("listing the engine's networks: %w", err)
		}
		engineNets, err := parseNetworks(res.Items)
		if err == nil && engineNets.otherMTU() && d.removeUnused(ctx, engineNets.egress) {
			continue
		}
		if err != nil || engineNets.egress != "" {
			d.removeDuplicateNetworks(ctx, engineNets)
			d.cacheNetworks(engineNets, err)
			return engineNets, err
		}
		without := false
		_, err = d.API.NetworkCreate(ctx, egressNetwork, client.NetworkCreateOptions{
			Driver:     "bridge",
			EnableIPv6: &without,
			Options:    egressOptions(engineNets.mtu),
			Labels:     map[string]string{engine.LabelCreatedBy: engine.CreatedBy, engine.LabelRole: roleEgress},
		})
		if err != nil && !errdefs.IsConflict(err) {
			return engineNetworks{}, fmt.Errorf("creating network %s: %w", egressNetwork, err)
		}
	}
	return engineNetworks{}, fmt.Errorf("creating network %s: it keeps disappearing", egressNetwork)
}

// optionMTU is the option of a network for the size of its packets.
const optionMTU = "com.docker.network.driver.mtu"

// egressOptions are those of the network of proxies. Where packets of the usual size get lost,
// as in VPNs, the user has set the size for the default bridge, which the engine does not use
// for other networks.
func egressOptions(mtu string) map[string]string {
	options := map[string]string{"com.docker.network.bridge.enable_icc": "false"} // isolates proxies from each other
	if mtu != "" {
		options[optionMTU] = mtu
	}
	return options
}

// otherMTU reports whether the network of proxies was created before the engine's setting was
// changed.
func (s engineNetworks) otherMTU() bool {
	const usual = "1500"
	return s.egress != "" && s.mtu != "" && cmp.Or(s.egressMTU, usual) != s.mtu
}

// removeUnused removes a network to which no container belongs, not even a stopped one.
func (d *Driver) removeUnused(ctx context.Context, id string) bool {
	used, err := d.API.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("network", id)})
	if err != nil || len(used.Items) > 0 {
		return false
	}
	_, err = d.API.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
	return err == nil
}

// cacheNetworks caches the last listing.
func (d *Driver) cacheNetworks(engineNets engineNetworks, err error) {
	if err == nil {
		d.cached.mu.Lock()
		defer d.cached.mu.Unlock()
		d.cached.networks = &engineNets
	}
}

// removeDuplicateNetworks removes networks that were created concurrently with the one
// in use. Old engines start no container in a network with an ambiguous name. Errors
// are ignored, because other processes may remove them as well.
func (d *Driver) removeDuplicateNetworks(ctx context.Context, engineNets engineNetworks) {
	for _, id := range engineNets.duplicates {
		_, _ = d.API.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
	}
}

// ambiguous reports whether a network has a duplicate.
func ambiguous(err error) bool {
	return err != nil && strings.Contains(err.Error(), "network "+egressNetwork+" is ambiguous")
}

// parseNetworks parses a list of networks. Networks that are created concurrently can
// have the same name: the oldest is used.
func parseNetworks(all []network.Summary) (engineNetworks, error) {
	slices.SortFunc(all, func(a, b network.Summary) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	var engineNets engineNetworks
	for _, n := range all {
		if n.Name == egressNetwork && engineNets.egress == "" {
			if n.Labels[engine.LabelCreatedBy] != engine.CreatedBy {
				return engineNetworks{}, lifecycle.Foreign(egressNetwork, "a network")
			}
			engineNets.egress, engineNets.egressMTU = n.ID, n.Options[optionMTU]
		} else if n.Name == egressNetwork && n.Labels[engine.LabelCreatedBy] == engine.CreatedBy {
			engineNets.duplicates = append(engineNets.duplicates, n.ID)
		}
		if n.Options["com.docker.network.bridge.default_bridge"] == "true" {
			engineNets.mtu = n.Options[optionMTU]
		}
		for _, c := range n.IPAM.Config {
			if !c.Subnet.IsValid() || !c.Subnet.Addr().Is4() {
				continue
			}
			engineNets.subnets = append(engineNets.subnets, c.Subnet)
			if n.Driver == "bridge" && !n.Internal && len(engineNets.gateways) < 4 {
				gateway := c.Gateway
				if !gateway.IsValid() {
					gateway = c.Subnet.Masked().Addr().Next() // not reported by old engines
				}
				engineNets.gateways = append(engineNets.gateways, gateway)
			}
		}
	}
	return engineNets, nil
}

func isInUse(err error) bool {
	return err != nil && strings.Contains(err.Error(), "active endpoints")
}

func (d *Driver) removeNetwork(ctx context.Context, id string) error {
	_, err := d.API.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing network %s: %w", id, err)
	}
	return nil
}
