package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/docker-ralph/docker-ralph/wire"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/credential/agentconfig"
	"github.com/docker-ralph/docker-ralph/credential/sshsign"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
)

// nobody is the user of a sandbox's first process. It is another one than the
// agent's, so that the agent cannot stop or kill it.
const nobody = "65534:65534"

// hostname is that of every sandbox.
const hostname = "sandbox"

// Create implements [lifecycle.Driver].
func (d *Driver) Create(ctx context.Context, spec lifecycle.Spec) (lifecycle.Sandbox, error) {
	if err := checkLocal(d.Host); err != nil {
		return lifecycle.Sandbox{}, err
	}
	if err := checkMounts(spec); err != nil {
		return lifecycle.Sandbox{}, err
	}
	info, err := d.info(ctx)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	if err := d.checkDocker(ctx, info); err != nil {
		return lifecycle.Sandbox{}, err
	}
	if err := d.checkEngine(info, spec); err != nil {
		return lifecycle.Sandbox{}, err
	}
	user, err := chooseUser(info, spec.User)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	d.warnOfRoot(user, spec.Egress.Policy.Mode)
	l := labels(spec)
	l[labelUser] = user
	g, err := d.layGround(ctx, spec, l)
	var sb lifecycle.Sandbox
	if err == nil {
		sb, err = d.createOn(ctx, g, spec, info, l)
	}
	if err != nil {
		if _, found, _ := d.inspectNamed(ctx, spec.Name); found && errdefs.IsNotFound(err) {
			err = lifecycle.ErrExists // who has made it meanwhile has removed what is ours
		}
		return lifecycle.Sandbox{}, errors.Join(err, d.leaveNetwork(ctx, g.network.name, g.holder))
	}
	return sb, nil
}

// ground is what the container of a sandbox stands on.
type ground struct {
	program guestbin.Payload // ralph, which is in place
	image   string
	mounts  []mount.Mount  // but for those that every sandbox has
	fresh   *cacheNote     // nil if the user has a folder for caches
	network sandboxNetwork // without a name if there is none
	holder  string         // ID of the container that holds the network; empty if the sandbox does that itself
}

// layGround looks everything up side by side, and makes volumes and the network
// meanwhile: an engine takes its time for each. What the volumes are of is noted
// in l. What there is if it fails is returned as well.
func (d *Driver) layGround(ctx context.Context, spec lifecycle.Spec, l map[string]string) (*ground, error) {
	g, user := &ground{}, l[labelUser]
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if g.program, err = d.ensureGuest(groupCtx); err == nil {
			g.mounts, g.fresh, err = d.mountsOf(groupCtx, spec, l, guestTag(g.program))
		}
		return err
	})
	group.Go(func() (err error) { g.image, err = d.fittedImage(groupCtx, spec, user); return err })
	if spec.Egress.Policy.Mode != "" {
		group.Go(func() (err error) { g.network, g.holder, err = d.makeHeldNetwork(ctx, spec); return err }) // to its end, so that it can be removed
	}
	return g, group.Wait()
}

// mountsOf are the mounts of a sandbox, and makes what is missing for them, some
// of it through a container of an image. What they are of is noted in l.
func (d *Driver) mountsOf(ctx context.Context, spec lifecycle.Spec, l map[string]string, image string) ([]mount.Mount, *cacheNote, error) {
	own, err := d.makeGit(ctx, spec, l, image)
	if err != nil {
		return nil, nil, err
	}
	cache, fresh, err := d.makeCache(ctx, spec, l)
	if err != nil {
		return nil, nil, err
	}
	mounts := slices.Concat(gitMounts(spec.Name, own), cache, shadowMounts(spec, l))
	if spec.SignDir != "" {
		if err := sshsign.MakeDir(spec.SignDir, spec.User.UID, spec.User.GID); err != nil {
			return nil, nil, err
		}
		mounts = append(mounts, readOnlyBind(spec.SignDir, wire.SignDir))
	}
	if spec.Config != "" {
		if err := agentconfig.MakeShown(spec.Config); err != nil {
			return nil, nil, err
		}
		mounts = append(mounts, readOnlyBind(spec.Config, wire.ConfigPoint))
	}
	return mounts, fresh, nil
}

// createOn creates the container of a sandbox.
func (d *Driver) createOn(ctx context.Context, g *ground, spec lifecycle.Spec, info system.Info, l map[string]string) (lifecycle.Sandbox, error) {
	user := l[labelUser]
	host := hostConfig(spec, info, l)
	host.Mounts = append(host.Mounts, g.mounts...)
	config := &container.Config{
		Image:      g.image,
		User:       nobody,
		Hostname:   hostname,
		WorkingDir: spec.Root,
		Entrypoint: []string{g.program.Path(), "_init"},
		Cmd:        []string{},
		Labels:     l,
		StopSignal: "SIGTERM",
		Healthcheck: &container.HealthConfig{
			Test: []string{"NONE"}, // an image's own would run what the agent can change
		},
	}
	networking, err := d.join(spec, g, config, host, l)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	made, err := d.createFitted(ctx, spec, user, client.ContainerCreateOptions{
		Name: spec.Name, Config: config, HostConfig: host, NetworkingConfig: networking,
	})
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	sb := fromLabels(made.ID, l)
	sb.State = lifecycle.Stopped
	err = d.compareMounts(ctx, made.ID, host.Mounts)
	if err == nil {
		err = d.furnish(ctx, made.ID, spec, user, g.fresh)
	}
	if err == nil {
		// The name is ours: what else belongs to it was left by somebody.
		err = d.sweepWall(ctx, spec.Name, l)
	}
	if err != nil {
		return lifecycle.Sandbox{}, errors.Join(err, d.Remove(context.WithoutCancel(ctx), sb))
	}
	return sb, nil
}

func hostConfig(spec lifecycle.Spec, info system.Info, l map[string]string) *container.HostConfig {
	mounts := []mount.Mount{
		{Type: mount.TypeVolume, Source: guestVolume, Target: wire.MountPoint, ReadOnly: true, VolumeOptions: &mount.VolumeOptions{NoCopy: true}},
		// Without a name, the volume comes and goes with the container.
		{Type: mount.TypeVolume, Target: Home, VolumeOptions: &mount.VolumeOptions{Labels: l}},
	}
	for _, dir := range append([]string{spec.Root}, spec.Mounts...) {
		mounts = append(mounts, mount.Mount{
			Type: mount.TypeBind, Source: dir, Target: dir,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
		})
	}
	pids := spec.Resources.Pids
	memory := atMost(spec.Resources.Memory, info.MemTotal)
	noInit := false
	host := &container.HostConfig{
		Mounts:         mounts,
		Init:           &noInit, // ours does that work, and old and bare engines have none
		CapDrop:        []string{"ALL"},
		SecurityOpt:    append([]string{"no-new-privileges"}, filter(info)...),
		IpcMode:        container.IPCModePrivate,
		CgroupnsMode:   container.CgroupnsModePrivate,
		LogConfig:      boundedLog(),
		Runtime:        spec.Runtime,
		ReadonlyRootfs: spec.ReadOnly,
		Resources: container.Resources{
			Memory:     memory,
			MemorySwap: memory,
			NanoCPUs:   atMost(spec.Resources.NanoCPUs, int64(info.NCPU)*1e9),
			PidsLimit:  &pids,
			Ulimits:    ulimits(),
		},
	}
	if spec.ReadOnly {
		host.Tmpfs = map[string]string{
			// The engine's default is noexec, with which go test, cgo and pip fail.
			"/tmp": "rw,exec,nosuid,nodev,size=1g,mode=1777",
			"/run": "rw,noexec,nosuid,nodev,size=16m,mode=755",
		}
	}
	return host
}

// atMost bounds a wish by what the engine has. An engine that does not say
// what it has bounds nothing.
func atMost(wish, has int64) int64 {
	if has > 0 && wish > has {
		return has
	}
	return wish
}

// checkLocal refuses engines that are known to be on another machine, where
// the work tree cannot be mounted from.
func checkLocal(host string) error {
	u, err := url.Parse(host)
	if err != nil || host == "" {
		return nil // an odd spelling is the engine client's business
	}
	switch u.Scheme {
	case "unix", "npipe", "fd":
		return nil
	case "tcp", "http", "https":
		name := u.Hostname()
		if ip := net.ParseIP(name); name == "localhost" || ip != nil && ip.IsLoopback() {
			return nil
		}
	}
	return fmt.Errorf("the engine at %s is not on this machine, so it cannot mount the work tree: choose a local one with \"docker context use\" or \"docker --context NAME ralph …\"", host)
}

// explainCreate adds what to do to the engine's words.
func explainCreate(spec lifecycle.Spec, err error) error {
	switch {
	case errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in use"):
		return lifecycle.ErrExists
	case strings.Contains(err.Error(), "bind source path does not exist") && spec.Config != "" && strings.Contains(err.Error(), spec.Config):
		return fmt.Errorf("the engine does not see the folder %s, in which docker-ralph keeps your configuration of the agent for the sandbox: share it with the virtual machine that the engine runs in, or set DOCKER_CONFIG to a folder that is shared (%w)", spec.Config, err)
	case strings.Contains(err.Error(), "bind source path does not exist"):
		return fmt.Errorf("the engine does not see the work tree %s: it runs on another machine, or in a virtual machine that the folder is not shared with (%w)", spec.Root, err)
	default:
		return fmt.Errorf("creating the sandbox %s: %w", spec.Name, err)
	}
}

// Start implements [lifecycle.Driver]. Nothing but our own first process runs
// then: the wall is raised by [Driver.Prepare], or else before the first command.
func (d *Driver) Start(ctx context.Context, sb lifecycle.Sandbox) error {
	if sb.State == lifecycle.Paused {
		return d.unpause(ctx, sb.ID)
	}
	if sb.Egress != "" {
		d.engine.mu.Lock()
		if d.engine.bare == nil {
			d.engine.bare = map[string]bool{}
		}
		d.engine.bare[sb.ID] = true
		d.engine.mu.Unlock()
	}
	if sb.Egress != "" {
		// Rules may be out of date, which [Driver.Ready] finds if this succeeds.
		var look sync.WaitGroup
		defer look.Wait()
		look.Go(func() { _, _ = d.lookAround(ctx) })
	}
	err := d.startAll(ctx, sb)
	if err != nil && sb.Egress != "" && lacksNetwork(err) {
		if err = d.rejoin(ctx, sb); err == nil {
			err = d.startAll(ctx, sb)
		}
	}
	if err != nil && strings.Contains(err.Error(), "already exists") {
		// An engine that was killed while it started a container does not know what
		// it has started.
		err = fmt.Errorf("%w: %w", lifecycle.ErrStuck, err)
	}
	if err != nil {
		return fmt.Errorf("starting the sandbox %s: %w", sb.Name, err)
	}
	d.engine.mu.Lock()
	defer d.engine.mu.Unlock()
	if d.engine.started == nil {
		d.engine.started = map[string]bool{}
	}
	d.engine.started[sb.ID] = true
	return nil
}

// startAll starts what holds the network of a sandbox, and the sandbox.
func (d *Driver) startAll(ctx context.Context, sb lifecycle.Sandbox) error {
	if err := agentconfig.Restore(sb.Config, d.Name(), sb.Name); err != nil {
		return err
	}
	_, err := d.API.ContainerStart(ctx, sb.ID, client.ContainerStartOptions{})
	if err == nil || sb.Netns == "" || !strings.Contains(err.Error(), "non running container") {
		return err
	}
	// Its holder is seldom stopped, so it is not asked for before.
	if _, err := d.API.ContainerStart(ctx, sb.Netns, client.ContainerStartOptions{}); err != nil {
		return err
	}
	_, err = d.API.ContainerStart(ctx, sb.ID, client.ContainerStartOptions{})
	return err
}

// Stop implements [lifecycle.Driver]. The network and its proxy stay as they are, so
// that the next start is quick; the proxy keeps no key.
func (d *Driver) Stop(ctx context.Context, sb lifecycle.Sandbox) error {
	_, err := d.API.ContainerStop(ctx, sb.ID, client.ContainerStopOptions{})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("stopping the sandbox %s: %w", sb.Name, err)
	}
	switch {
	case sb.Proxy == "":
		return nil
	case err != nil:
		return d.EndProxy(ctx, sb) // which has nobody to stand by
	}
	return d.disarm(ctx, sb)
}

// Remove implements [lifecycle.Driver].
func (d *Driver) Remove(ctx context.Context, sb lifecycle.Sandbox) error {
	if err := d.removeContainer(ctx, sb.ID); err != nil {
		return fmt.Errorf("removing the sandbox %s: %w", sb.Name, err)
	}
	if sb.Egress != "" {
		if err := d.sweepWall(ctx, sb.Name, nil); err != nil {
			return err
		}
	}
	if err := d.removeGit(ctx, sb); err != nil {
		return err
	}
	if staging, err := agentconfig.StagingAt(sb.Config, d.Name(), sb.Name); err == nil {
		if err := staging.Remove(); err != nil {
			return fmt.Errorf("removing the sandbox %s: %w", sb.Name, err)
		}
	}
	for _, path := range []string{d.markerPath(sb.Name), d.resolverPath(sb.Name), sshsign.Dir(d.StateDir, sb.Name)} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing the sandbox %s: %w", sb.Name, err)
		}
	}
	return nil
}

func (d *Driver) markerPath(name string) string {
	return filepath.Join(d.StateDir, "sandboxes", name+".json")
}
