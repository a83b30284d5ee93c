package container_test

import (
	"context"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
)

// BenchmarkUp creates and starts sandboxes with a network policy and without one.
func BenchmarkUp(b *testing.B) {
	policy, err := egress.New(egress.Allowlist, "shell", []string{egress.AgentPreset, "git", "packages"}, nil)
	assert.NilError(b, err)
	for _, e := range engines.List() {
		for way, access := range map[string]lifecycle.Egress{"open": {}, "isolated": {Policy: policy, Amended: policy}} {
			b.Run(e.Name+"-"+way, func(b *testing.B) {
				dir := b.TempDir()
				d := &container.Driver{API: e.Client(b), Host: e.Host, StateDir: dir}
				up := &lifecycle.Ensurer{
					Driver: d, LockDir: dir, Report: func(string) {},
					Image: func(context.Context) error { return nil },
				}
				for b.Loop() {
					b.StopTimer()
					spec := newSpec(b, "bench")
					spec.Egress = access
					b.StartTimer()
					sb, err := up.Ensure(b.Context(), spec, false)
					assert.NilError(b, err)
					b.StopTimer()
					assert.NilError(b, d.Remove(b.Context(), sb))
					b.StartTimer()
				}
			})
		}
	}
}
