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
