package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/credential/hostconfig"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// place is where a command is going to run.
type place struct {
	kind    string // the driver's name
	name    string // of the worktree's sandbox
	moved   string // where the worktree was when that was made, if it was moved since
	driver  lifecycle.Driver
	config  *hostconfig.Files // the user's, of the agent
	why     string            // why this driver was chosen; empty if the user did
	image   string
	build   bool // the image comes from the engine, and is built there as request says if need be
	request projectimage.Request
	api     API     // nil if there is no engine, or none is needed
	git     *ownGit // of a container with a git directory of its own; nil without
	// inspect looks for credentials; nil where no command is run.
	inspect   *inspection
	endpoints []string // rules for the hosts of the agent's own endpoints
	// keys are those that the proxy of a container keeps; nil where none does.
	keys *credential.Routed
	// origin is how git reaches the user's repository with a token; nil without.
	origin *gitAccess
	signer *signer // what signs commits; nil without
}

// choose chooses the driver. One that is named is never replaced by another.
// Left open, it is the one that the scope's sandbox was made with; for a new
// one the first that can make sandboxes here.
func (h Host) choose(ctx context.Context, wt gitrepo.Worktree, cfg config.Effective, req projectimage.Request, connected func() (API, error)) (place, error) {
	name, err := h.sandboxName(wt)
	if err != nil {
		return place{}, err
	}
	kind := cfg.Sandbox.Driver
	why := ""
	if kind == config.DriverAuto {
		if kind = h.kept(name); kind == "" {
			kind, why = h.probe(ctx)
		}
	}
	at := place{kind: kind, name: name, why: why, request: req}
	made, known := microvm.Remembered(h.StateDir, kind, name)
	switch kind {
	case config.DriverSbx:
		err = h.atSbx(ctx, &at, made.Image, cfg, connected)
	case config.DriverDockerSandbox:
		err = h.atDockerSandbox(&at, known, cfg)
	default:
		err = h.atContainer(&at, connected)
	}
	return at, err
}

// kept is the driver that has made the sandbox of that name, as far as we
// remember.
func (h Host) kept(name string) string {
	for _, kind := range microvm.Drivers() {
		if _, known := microvm.Remembered(h.StateDir, kind, name); known {
			return kind
		}
	}
	if container.Known(h.StateDir, name) {
		return config.DriverContainer
	}
	return ""
}

// missing begins the reason for a driver whose program is not installed.
const missing = "no "

// probe tries the drivers in the order of their isolation, and says why those
// before the one that it returns were left out.
func (h Host) probe(ctx context.Context) (kind, why string) {
	var not []string
	for _, candidate := range microvm.Drivers() {
		err := h.usable(ctx, candidate)
		if err == nil {
			kind = candidate
			break
		}
		reason, _, _ := strings.Cut(err.Error(), ": ")
		if errors.Is(err, lifecycle.ErrNotInstalled) {
			reason = missing + strings.ReplaceAll(candidate, "-", " ")
		}
		not = append(not, reason)
	}
	if kind == "" {
		kind = config.DriverContainer
	}
	return kind, strings.Join(not, "; ")
}

// usable tells whether a driver of microVMs can make sandboxes here.
func (h Host) usable(ctx context.Context, kind string) error {
	if kind == config.DriverDockerSandbox && h.HasPlugin != nil && !h.HasPlugin("sandbox") {
		return lifecycle.ErrNotInstalled
	}
	return h.microVM(kind, nil).Usable(ctx)
}

// microVM is the driver of that name. engine has the images that sbx is given.
func (h Host) microVM(kind string, engine microvm.Engine) *microvm.Driver {
	return microvm.New(kind, microvm.Options{
		StateDir: h.StateDir, Keeper: h.Keeper, Report: h.report,
		Engine: engine, KVM: cmp.Or(h.getenv("RALPH_KVM"), "/dev/kvm"),
		Docker: h.Docker, Globals: h.DockerGlobals,
	})
}

func (h Host) atContainer(at *place, connected func() (API, error)) (err error) {
	if at.image, err = projectimage.Ref(at.request); err != nil {
		return err
	}
	if at.api, err = connected(); err != nil {
		for reason := range strings.SplitSeq(at.why, "; ") {
			if reason != "" && !strings.HasPrefix(reason, missing) { // which is no news
				err = hint.Wrap(err, "no microVM was used instead: %s", reason)
			}
		}
		return err
	}
	at.build = true
	at.driver = &container.Driver{API: at.api, Host: at.api.DaemonHost(), StateDir: h.StateDir, Report: h.report}
	return nil
}

func (h Host) atDockerSandbox(at *place, known bool, cfg config.Effective) error {
	at.driver = h.microVM(at.kind, nil)
	if !known {
		for _, key := range []string{config.KeyMemory, config.KeyCPUs} {
			if from := cfg.Origins[key]; from.Kind != config.FromDefault {
				h.report(fmt.Sprintf("Warning: %s has no effect: docker sandbox knows no such limit (%s)", key, from))
			}
		}
	}
	if at.image = cfg.Sandbox.Image; at.image != "" {
		return nil
	}
	template, ok := microvm.Template(cfg.Agent.Name)
	if !ok {
		return fmt.Errorf("docker sandbox has no image for the agent %q: give one with --image", cfg.Agent.Name)
	}
	h.useTemplate(at, template)
	return nil
}

// atSbx prefers our own images, which are built on an engine. Without one there
// are those that Docker provides. was is the image of the sandbox that exists.
func (h Host) atSbx(ctx context.Context, at *place, was string, cfg config.Effective, connected func() (API, error)) error {
	at.image = cfg.Sandbox.Image
	err := h.imageForSbx(ctx, at, was, cfg, connected)
	var engine microvm.Engine
	if at.api != nil {
		engine = at.api
	}
	at.driver = h.microVM(at.kind, engine)
	return err
}

// imageForSbx chooses the image; was is that of the sandbox that exists. The
// engine is asked whether it is there unless nothing has to be built.
func (h Host) imageForSbx(ctx context.Context, at *place, was string, cfg config.Effective, connected func() (API, error)) error {
	given := at.image != "" // sbx fetches it if the engine does not have it
	template, provided := microvm.Template(cfg.Agent.Name)
	wishes := at.request.Base != "" || at.request.Project != nil
	if !given && provided && was == template && !wishes {
		h.useTemplate(at, template)
		return nil
	}
	built, unknown := projectimage.Ref(at.request)
	api, err := connected()
	if err == nil && (given || built == "" || was != built) {
		err = answers(ctx, api)
	}
	if err == nil {
		at.api = api
	}
	switch {
	case given:
		return nil
	case at.api != nil && unknown == nil:
		at.image, at.build = built, true
		return nil
	case provided:
		h.useTemplate(at, template)
		return nil
	case unknown != nil:
		return unknown
	default:
		return fmt.Errorf("sbx has no image for the agent %q, and there is no engine to build one (%w): start one, or give an image with --image", cfg.Agent.Name, err)
	}
}

// useTemplate takes an image that Docker provides, on which nothing is built.
func (h Host) useTemplate(at *place, template string) {
	at.image = template
	var without string
	switch {
	case at.request.Project != nil:
		without = at.request.Project.File
	case at.request.Base != "":
		without = fmt.Sprintf("image.base = %q", at.request.Base)
	default:
		return
	}
	h.report(fmt.Sprintf("Warning: %s has no effect: the image %s is used as it is", without, template))
}

// answers tells whether there is an engine.
func answers(ctx context.Context, api API) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := api.Info(ctx, client.InfoOptions{})
	return err
}
