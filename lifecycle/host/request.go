package host

import (
	"context"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// AgentRequest returns the request for the image without a project's layer.
func AgentRequest(cfg config.Effective) projectimage.Request {
	return projectimage.Request{Agent: cfg.Agent.Name, Base: cfg.Image.Base, CA: cfg.Sandbox.CA, Image: cfg.Sandbox.Image}
}

// ImageRequest returns the request for the image of a worktree. All worktrees of a repository
// share the request of the main one, if it is known.
func ImageRequest(ctx context.Context, wt gitrepo.Worktree, cfg config.Effective) (projectimage.Request, error) {
	req := AgentRequest(cfg)
	if req.Image != "" {
		return req, nil
	}
	root := wt.MainRoot
	if root == "" {
		root = wt.Root
	}
	project, found, err := projectimage.FindProject(ctx, root)
	if found {
		project.NoNetwork = cfg.Image.Network == config.BuildNetworkNone
		req.Project = &project
	}
	return req, err
}

// Builder returns a builder of images on an engine.
func (h Host) Builder(api API) *projectimage.Builder {
	return &projectimage.Builder{
		Engine:     api,
		Auth:       h.Credentials,
		ConfigFile: filepath.Join(filepath.Dir(h.StateDir), "config.json"),
		Progress:   h.Progress,
		ProxyArgs:  h.ProxyArgs(api.DaemonHost()),
		LockDir:    h.LockDir(),
	}
}
