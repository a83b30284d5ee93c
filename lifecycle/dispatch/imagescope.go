package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// imageScope is what a command about images was given for.
type imageScope struct {
	inside bool             // there is a work tree
	wt     gitrepo.Worktree // its Scope is empty where there is a work tree, but no branch or origin
	cfg    config.Effective
	req    projectimage.Request
}

// imageScope finds out which images are meant. Without a repository it is the
// agent's alone.
func (h Host) imageScope(ctx context.Context, over config.Overrides) (imageScope, error) {
	var s imageScope
	var err error
	if s.wt, s.inside, err = h.workTree(ctx); err != nil {
		return s, err
	}
	if !s.inside {
		s.cfg, err = loadConfig(config.Sources{UserDir: h.StateDir, Getenv: h.getenv, Overrides: over})
		s.req = projectimage.Request{Agent: s.cfg.Agent.Name, Base: s.cfg.Image.Base, Image: s.cfg.Sandbox.Image}
		return s, err
	}
	if s.cfg, err = h.configure(ctx, s.wt, Options{Overrides: over}); err != nil {
		return s, err
	}
	s.req, err = imageRequest(ctx, s.wt, s.cfg)
	return s, err
}

// workTree finds the work tree of the current directory. An image needs neither
// a branch nor an origin.
func (h Host) workTree(ctx context.Context) (wt gitrepo.Worktree, inside bool, err error) {
	wt, err = gitrepo.Detect(ctx, h.Dir, h.getenv)
	switch {
	case errors.Is(err, gitrepo.ErrNotRepository):
		return gitrepo.Worktree{}, false, nil
	case err == nil:
		return wt, true, nil
	}
	wt, anyErr := gitrepo.Detect(ctx, h.Dir, func(name string) string {
		return map[string]string{"RALPH_SCOPE_REPO": "any", "RALPH_SCOPE_BRANCH": "any"}[name]
	})
	if anyErr != nil {
		return gitrepo.Worktree{}, false, err
	}
	wt.Scope = gitrepo.Scope{}
	return wt, true, nil
}

// storedImages lists the images of docker ralph with all who use them: also
// sandboxes that are microVMs.
func (h Host) storedImages(ctx context.Context, builder *projectimage.Builder) ([]projectimage.Stored, error) {
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

// once lets several ask for the connection.
func once(connected func() (API, error)) func() (API, error) { return sync.OnceValues(connected) }
