package run

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// Choice is the driver for a command, and the image for its sandbox.
type Choice struct {
	host.Backend
	name    string             // of the worktree's sandbox
	from    *host.EngineRecord // where the sandbox is now, if it is to be moved; nil otherwise
	moved   string             // former path of the worktree, if it was moved since the sandbox was created
	leftOut []host.LeftOut     // drivers that were tried before this one
	Image   string
	Build   bool // the image is built from Request if the engine lacks it
	Request projectimage.Request
}

// Choose chooses the driver: the configured one, else containers on a remote engine that the user
// has selected explicitly, else the one that created the scope's sandbox, else the first usable
// one. Containers are on the engine that it connects to.
func Choose(ctx context.Context, h host.Host, wt gitrepo.Worktree, cfg config.Effective, req projectimage.Request, connected func() (host.API, error)) (Choice, error) {
	return choose(ctx, h, wt, cfg, req, connected, func(string) (host.API, host.Engine, error) {
		api, err := connected()
		return api, h.Selected, err
	})
}

// choose is Choose with containers on the engine that engineOf returns for the sandbox.
func choose(ctx context.Context, h host.Host, wt gitrepo.Worktree, cfg config.Effective, req projectimage.Request, connected func() (host.API, error), engineOf engineOf) (Choice, error) {
	name, err := h.SandboxName(wt)
	if err != nil {
		return Choice{}, err
	}
	kind := cfg.Sandbox.Driver
	var leftOut []host.LeftOut
	if kind == config.DriverAuto {
		if kind = h.CreatedBy(name); kind == "" || h.SelectedBy != "" && !h.Selected.Local() {
			kind, leftOut = h.Probe(ctx)
		}
	}
	at := Choice{Backend: host.Backend{Kind: kind}, name: name, leftOut: leftOut, Request: req}
	existing, known := microvm.Remembered(h.StateDir, kind, name)
	switch kind {
	case config.DriverSbx:
		err = atSbx(ctx, h, &at, existing.Image, cfg, connected)
	case config.DriverDockerSandbox:
		err = atDockerSandbox(h, &at, known, cfg)
	default:
		err = atContainer(ctx, h, &at, engineOf)
	}
	return at, err
}

// engineOf connects to the engine of a sandbox.
type engineOf func(sandbox string) (host.API, host.Engine, error)

func atContainer(ctx context.Context, h host.Host, at *Choice, connected engineOf) (err error) {
	if at.Image, err = projectimage.Ref(at.Request); err != nil {
		return err
	}
	at.API, at.Engine, err = connected(at.name)
	if err == nil && len(at.leftOut) > 0 {
		err = ping(ctx, at.API)
	}
	if ctx.Err() == nil && engine.ConnectionLost(err) {
		return noDriver(at.leftOut, err)
	}
	if err != nil {
		return err
	}
	at.Build = true
	at.Driver = h.ContainerDriver(at.API)
	return nil
}

// noDriver returns the error for an engine that cannot be reached, with the drivers that were
// tried before containers.
func noDriver(leftOut []host.LeftOut, err error) error {
	if !slices.ContainsFunc(leftOut, host.LeftOut.Installed) {
		return err
	}
	tried := make([]string, len(leftOut))
	for i, l := range leftOut {
		tried[i] = l.Driver + ": not installed"
		if l.Installed() {
			tried[i] = fmt.Sprintf("%s: %s", l.Driver, l.Err)
		}
	}
	err = hint.Wrap(fmt.Errorf("no driver works: %s; %s: %w", strings.Join(tried, "; "), config.DriverContainer, err), "start the Docker Engine or Docker Desktop")
	for _, l := range leftOut {
		for _, remedy := range hint.Of(l.Err) {
			if l.Installed() {
				err = hint.Wrap(err, "%s", l.Driver+": "+remedy)
			}
		}
	}
	return err
}

func atDockerSandbox(h host.Host, at *Choice, known bool, cfg config.Effective) error {
	at.Driver = h.MicroVM(at.Kind, nil)
	if !known {
		for _, key := range []string{config.KeyMemory, config.KeyCPUs, config.KeyTmp, config.KeyShm} {
			if from := cfg.Origins[key]; from.Kind != config.FromDefault {
				h.Report(fmt.Sprintf("Warning: %s has no effect: docker sandbox has no such limit (%s)", key, from))
			}
		}
	}
	if at.Image = cfg.Sandbox.Image; at.Image != "" {
		return nil
	}
	template, ok := microvm.Template(cfg.Agent.Name)
	if !ok {
		return hint.Wrap(fmt.Errorf("docker sandbox has no image for agent %q", cfg.Agent.Name), "pass one with --image")
	}
	useTemplate(h, at, template)
	return nil
}

// atSbx prefers our images, which are built on an engine. Without an engine, it uses those
// that Docker provides. current is the image of the existing sandbox.
func atSbx(ctx context.Context, h host.Host, at *Choice, current string, cfg config.Effective, connected func() (host.API, error)) error {
	at.Image = cfg.Sandbox.Image
	err := imageForSbx(ctx, h, at, current, cfg, connected)
	var engine microvm.Engine
	if at.API != nil {
		engine = at.API
	}
	at.Driver = h.MicroVM(at.Kind, engine)
	return err
}

// imageForSbx chooses the image. It pings the engine only if something may have to be built.
func imageForSbx(ctx context.Context, h host.Host, at *Choice, current string, cfg config.Effective, connected func() (host.API, error)) error {
	explicit := at.Image != "" // sbx pulls it if the engine lacks it
	template, provided := microvm.Template(cfg.Agent.Name)
	customized := at.Request.Base != "" || at.Request.CA != "" || at.Request.Project != nil
	if !explicit && provided && current == template && !customized {
		useTemplate(h, at, template)
		return nil
	}
	built, unknown := projectimage.Ref(at.Request)
	api, err := connected()
	if err == nil && (explicit || built == "" || current != built) {
		err = ping(ctx, api)
	}
	if err == nil {
		at.API = api
	}
	switch {
	case explicit:
		return nil
	case at.API != nil && unknown == nil:
		at.Image, at.Build = built, true
		return nil
	case provided:
		useTemplate(h, at, template)
		return nil
	case unknown != nil:
		return unknown
	default:
		return hint.Wrap(fmt.Errorf("sbx has no image for agent %q, and there is no engine to build one: %w", cfg.Agent.Name, err), "start an engine, or pass an image with --image")
	}
}

// useTemplate uses an image that Docker provides, on which nothing is built.
func useTemplate(h host.Host, at *Choice, template string) {
	at.Image = template
	var without string
	switch {
	case at.Request.Project != nil:
		without = at.Request.Project.File
	case at.Request.Base != "":
		without = fmt.Sprintf("image.base = %q", at.Request.Base)
	default:
		return
	}
	h.Report(fmt.Sprintf("Warning: %s has no effect: image %s is used as it is", without, template))
}

// ping returns an error if there is no engine.
func ping(ctx context.Context, api host.API) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := api.Info(ctx, client.InfoOptions{})
	return err
}
