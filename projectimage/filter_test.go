package projectimage

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func TestFilter(t *testing.T) {
	now := time.Now()
	image := Stored{Agent: "claude", Project: "shop", Created: now.Add(-time.Hour)}
	for _, tc := range []struct {
		name       string
		conditions []string
		want       bool
	}{
		{"none", nil, true},
		{"agent", []string{"agent=claude"}, true},
		{"another agent", []string{"agent=codex"}, false},
		{"project", []string{"project=shop"}, true},
		{"another project", []string{"project=sho"}, false},
		{"older", []string{"until=59m"}, true},
		{"younger", []string{"until=61m"}, false},
		{"all", []string{"agent=claude", "project=shop", "until=30m"}, true},
		{"all but one", []string{"agent=claude", "project=shop", "until=2h"}, false},
		{"the last one counts", []string{"agent=codex", "agent=claude"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var f Filter
			for _, c := range tc.conditions {
				assert.NilError(t, f.Set(c))
			}
			assert.Equal(t, f.Matches(image, now), tc.want)
		})
	}
	for _, condition := range []string{"", "agent", "agent=", "label=x", "=x", "until=", "until=soon", "until=-1h", "until=1d"} {
		t.Run("wrong "+condition, func(t *testing.T) {
			f := Filter{Agent: "claude"}
			assert.ErrorContains(t, f.Set(condition), "invalid filter ")
			assert.Equal(t, f, Filter{Agent: "claude"})
		})
	}
}

func FuzzFilter(f *testing.F) {
	for _, seed := range []string{"agent=a", "project=b=c", "until=1h", "until=-1h", "x", "=", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, condition string) {
		var filter Filter
		if err := filter.Set(condition); err != nil {
			assert.Equal(t, filter, Filter{})
			return
		}
		assert.Assert(t, filter.Until >= 0)
		// What matches matches again with the same condition twice.
		image := Stored{Agent: filter.Agent, Project: filter.Project}
		assert.Assert(t, filter.Matches(image, image.Created.Add(filter.Until+1)))
	})
}
