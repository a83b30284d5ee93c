package manage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle/approval"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
	"github.com/docker-ralph/docker-ralph/lifecycle/selftest"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// SelfTest checks this machine with a temporary sandbox and reports each check.
func SelfTest(ctx context.Context, h host.Host, over config.Overrides, report func(selftest.Result)) error {
	m := &machine{Host: nonInteractive(h), over: over}
	cfg, err := approval.Load(config.Sources{UserDir: h.StateDir, Getenv: m.Getenv, Overrides: over})
	if err != nil {
		return err
	}
	m.cfg = cfg
	return selftest.Run(ctx, m, report)
}

// nonInteractive returns the host without prompts and terminal. It connects to the
// engine once, cancelling the context interrupts what runs in a sandbox, and the
// scope is that of the test repository.
func nonInteractive(h host.Host) host.Host {
	h.Engine = sync.OnceValues(h.Engine)
	h.Stdin, h.Terminal, h.Confirm = nil, nil, nil
	h.Forward = interruptAtEnd
	lookup := h.LookupEnv
	h.LookupEnv = func(name string) (string, bool) {
		if lookup == nil || name == "RALPH_SCOPE_REPO" || name == "RALPH_SCOPE_BRANCH" {
			return "", false
		}
		return lookup(name)
	}
	return h
}

// interruptAtEnd turns the end of a context into signals: an interrupt, then
// SIGTERM.
func interruptAtEnd(ctx context.Context) (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 2)
	stopped, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-stopped.Done():
			return
		case <-ctx.Done():
			signals <- os.Interrupt
		}
		select {
		case <-stopped.Done():
		case <-time.After(2 * time.Second):
			signals <- syscall.SIGTERM
		}
	}()
	return signals, stop
}

type machine struct {
	host.Host
	over config.Overrides
	cfg  config.Effective // the user's

	driver    *selftest.Driver
	driverErr error
	at        run.Choice // with the image of the user's agent
}

// Version implements [selftest.Machine].
func (m *machine) Version() string { return m.Host.Version }

// Engine implements [selftest.Machine].
func (m *machine) Engine() (selftest.Engine, error) {
	api, err := m.Host.Engine()
	if err != nil {
		return nil, err
	}
	engine, ok := api.(selftest.Engine)
	if !ok {
		return nil, fmt.Errorf("the engine at %s does not report its version", api.DaemonHost())
	}
	return engine, nil
}

// BuildKit implements [selftest.Machine].
func (m *machine) BuildKit(ctx context.Context) (string, error) {
	api, err := m.Host.Engine()
	if err != nil {
		return "", err
	}
	return m.Builder(api).Reach(ctx)
}

// Driver implements [selftest.Machine].
func (m *machine) Driver(ctx context.Context) (selftest.Driver, error) {
	if m.driver != nil {
		return *m.driver, m.driverErr
	}
	d := selftest.Driver{Name: m.cfg.Sandbox.Driver, Why: "by " + m.cfg.Origins["sandbox.driver"].String()}
	var err error
	switch d.Name {
	case config.DriverAuto:
		var leftOut []host.LeftOut
		d.Name, leftOut = m.Probe(ctx)
		d.Why = host.Reasons(leftOut)
	case config.DriverContainer:
	default:
		err = m.MicroVM(d.Name, nil).Usable(ctx)
	}
	d.NeedsEngine = d.Name == config.DriverContainer
	if ctx.Err() == nil {
		m.driver, m.driverErr = &d, err
	}
	return d, err
}

// AgentImage implements [selftest.Machine].
func (m *machine) AgentImage(ctx context.Context) (selftest.Image, error) {
	d, err := m.Driver(ctx)
	if err != nil {
		return selftest.Image{}, err
	}
	cfg := m.cfg
	cfg.Sandbox.Driver = d.Name
	worktree := gitrepo.Worktree{Scope: gitrepo.Scope{Repo: "selftest/" + rand.Text(), Branch: "main"}}
	req := host.AgentRequest(cfg)
	if m.at, err = run.Choose(ctx, m.Host, worktree, cfg, req, m.Host.Engine); err != nil {
		return selftest.Image{}, err
	}
	switch {
	case m.at.Build:
		return m.ensureImage(ctx, m.at.Request)
	case cfg.Sandbox.Image != "":
		return selftest.Image{Ref: m.at.Image, Note: usedAsIs}, nil
	default:
		return selftest.Image{Ref: m.at.Image, Note: "Docker provides it"}, nil
	}
}

const usedAsIs = "used as it is"

func (m *machine) ensureImage(ctx context.Context, req projectimage.Request) (selftest.Image, error) {
	image, err := m.Builder(m.at.API).Ensure(ctx, req)
	note := ""
	switch {
	case req.Image != "":
		note = usedAsIs
	case image.Built:
		note = "built now"
	}
	return selftest.Image{Ref: image.Ref, Note: note}, err
}

// Project implements [selftest.Machine], with the configuration of the current
// directory.
func (m *machine) Project(ctx context.Context) (func(context.Context) (selftest.Image, error), error) {
	sources := config.Sources{UserDir: m.StateDir, Getenv: m.Getenv, Overrides: m.over}
	mainRoot := m.Dir
	if wt, err := gitrepo.Detect(ctx, m.Dir, host.AnyScope); err == nil {
		sources.Root, mainRoot = wt.Root, wt.MainRoot
		if mainRoot == "" {
			mainRoot = wt.Root
		}
	} else if ctx.Err() != nil {
		return nil, err
	}
	project, found, findErr := projectimage.FindProject(ctx, mainRoot)
	if !found && findErr == nil {
		return nil, nil
	}
	cfg, err := approval.Load(sources)
	if err == nil {
		err = config.NewTrustStore(m.StateDir).Require(cfg)
	}
	if _, untrusted := errors.AsType[*config.UntrustedError](err); untrusted {
		return nil, selftest.Skip(withHints(err))
	}
	switch {
	case err != nil:
		return nil, err
	case cfg.Sandbox.Image != "":
		return nil, selftest.Skip(fmt.Sprintf("image %s is %s (%s)", cfg.Sandbox.Image, usedAsIs, cfg.Origins["sandbox.image"]))
	case findErr != nil:
		return nil, findErr
	}
	project.NoNetwork = cfg.Image.Network == config.BuildNetworkNone
	return func(ctx context.Context) (selftest.Image, error) {
		if !m.at.Build {
			return selftest.Image{}, selftest.Skip(fmt.Sprintf("with the %s driver, image %s is %s", m.at.Kind, m.at.Image, usedAsIs))
		}
		if err := approval.ApproveBuild(ctx, m.Host, &project); err != nil {
			return selftest.Image{}, selftest.Skip(withHints(err))
		}
		req := host.AgentRequest(cfg)
		req.Project = &project
		return m.ensureImage(ctx, req)
	}, nil
}

// withHints formats an error and its hints on one line.
func withHints(err error) string {
	return strings.Join(append([]string{err.Error()}, hint.Of(err)...), ": ")
}
