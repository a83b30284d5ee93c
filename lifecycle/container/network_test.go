package container

import (
	"errors"
	"testing"
	"time"

	"github.com/moby/moby/api/types/network"
	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
)

// Two users of one engine can make the network to the world at the same moment.
func TestOldestDuplicateNetworkIsUsed(t *testing.T) {
	noon := time.Date(2031, 2, 3, 12, 0, 0, 0, time.UTC)
	of := func(name, id string, made time.Time) network.Summary {
		return network.Summary{Network: network.Network{
			Name: name, ID: id, Created: made, Labels: map[string]string{engine.LabelCreatedBy: engine.CreatedBy, engine.LabelRole: roleEgress},
		}}
	}
	engineNets, err := parseNetworks([]network.Summary{
		of(egressNetwork, "c", noon.Add(time.Second)), of("other", "o", noon), of(egressNetwork, "b", noon), of(egressNetwork, "a", noon),
	})
	assert.NilError(t, err)
	assert.Equal(t, engineNets.egress, "a")
	assert.DeepEqual(t, engineNets.duplicates, []string{"b", "c"})
	assert.Assert(t, ambiguous(errors.New("Error response from daemon: network ralph-egress is ambiguous (2 matches found on name)")))
	assert.Assert(t, !ambiguous(nil))
}

// The network of proxies has the packet size of the engine's default bridge.
func TestPacketSizeIsThatOfTheEngine(t *testing.T) {
	bridge := func(mtu string) network.Summary {
		options := map[string]string{"com.docker.network.bridge.default_bridge": "true"}
		if mtu != "" {
			options[optionMTU] = mtu
		}
		return network.Summary{Network: network.Network{Name: "bridge", ID: "b", Options: options}}
	}
	own := func(mtu string) network.Summary {
		return network.Summary{Network: network.Network{
			Name: egressNetwork, ID: "e", Options: egressOptions(mtu), Labels: map[string]string{engine.LabelCreatedBy: engine.CreatedBy},
		}}
	}
	other := network.Summary{Network: network.Network{Name: "other", Options: map[string]string{optionMTU: "9000"}}}
	for _, tc := range []struct {
		name     string
		networks []network.Summary
		mtu      string
		replace  bool
	}{
		{"set, no network yet", []network.Summary{bridge("1400"), other}, "1400", false},
		{"the same", []network.Summary{bridge("1400"), own("1400"), other}, "1400", false},
		{"the usual one", []network.Summary{bridge("1500"), own("")}, "1500", false},
		{"set later", []network.Summary{own(""), bridge("1300")}, "1300", true},
		{"changed", []network.Summary{own("1400"), bridge("9000")}, "9000", true},
		{"set no more", []network.Summary{own("1400"), bridge("1500")}, "1500", true},
		{"not reported", []network.Summary{own("1400"), bridge("")}, "", false},
		{"no default bridge", []network.Summary{own("1400")}, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			engineNets, err := parseNetworks(tc.networks)
			assert.NilError(t, err)
			assert.Equal(t, engineNets.mtu, tc.mtu)
			assert.Equal(t, egressOptions(engineNets.mtu)[optionMTU], tc.mtu)
			assert.Equal(t, engineNets.otherMTU(), tc.replace)
		})
	}
}
