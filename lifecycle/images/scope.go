package images

import (
	"context"
	"slices"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// imageScope is the current scope and its image.
type imageScope struct {
	inside bool             // a worktree
	wt     gitrepo.Worktree // its Scope is empty without a branch or origin
	cfg    config.Effective
	req    projectimage.Request
}

// findImageScope finds the image of the current scope; outside of a repository, the
// agent image.
func findImageScope(ctx context.Context, h host.Host, over config.Overrides) (imageScope, error) {
	var s imageScope
	var err error
	if s.wt, s.inside, err = h.CurrentWorktree(ctx); err != nil {
		return s, err
	}
	if !s.inside {
		s.cfg, err = approval.Load(config.Sources{UserDir: h.StateDir, Getenv: h.Getenv, Overrides: over})
		s.req = host.AgentRequest(s.cfg)
		return s, err
	}
	if s.cfg, err = approval.Configure(ctx, h, s.wt, over); err != nil {
		return s, err
	}
	s.req, err = host.ImageRequest(ctx, s.wt, s.cfg)
	return s, err
}

// Stored lists the images of docker ralph with their users, microVMs
// included.
func Stored(ctx context.Context, h host.Host, builder *projectimage.Builder) ([]projectimage.Stored, error) {
	all, err := builder.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, driver := range microvm.Drivers() {
		images, err := microvm.Images(h.StateDir, driver)
		if err != nil {
			return nil, err
		}
		for name, ref := range images {
			for i, s := range all {
				if slices.Contains(s.Tags, ref) && !slices.Contains(s.UsedBy, name) {
					all[i].UsedBy = append(s.UsedBy, name)
				}
			}
		}
	}
	for _, s := range all {
		slices.Sort(s.UsedBy)
	}
	return all, nil
}
