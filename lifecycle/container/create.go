package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/credential/agentconfig"
	"github.com/docker-ralph/docker-ralph/credential/sshsign"
	"github.com/docker-ralph/docker-ralph/egress"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/engine"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/programs"
	"github.com/docker-ralph/docker-ralph/lifecycle/container/userimage"
	"github.com/docker-ralph/docker-ralph/lifecycle/guestbin"
	"github.com/docker-ralph/docker-ralph/scopes"
	"github.com/docker-ralph/docker-ralph/wire"
)

// initUser is the user of a sandbox's PID 1, which the agent cannot kill, and of its proxy.
var initUser = fmt.Sprintf("%[1]d:%[1]d", initUID)

const initUID = programs.ProxyUID

// Create implements [lifecycle.Driver].
func (d *Driver) Create(ctx context.Context, spec lifecycle.Spec) (lifecycle.Sandbox, error) {
	if !spec.Clone && !engine.Local(d.Host) {
		return lifecycle.Sandbox{}, hint.Wrap(fmt.Errorf("the engine at %s is remote and cannot mount the worktree", d.Host), "set %s to %q or %q", config.KeyWorkspace, config.WorkspaceClone, config.WorkspaceAuto)
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
	user, err := chooseUser(info, spec)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	d.warnAboutRoot(user, spec.Egress.Policy.Mode)
	own, err := scopes.EnsureClientID(d.StateDir)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	l := labels(spec)
	l[labelUser] = user
	labelClient(l, own)
	g, err := d.checkPrerequisites(ctx, spec, l)
	var sb lifecycle.Sandbox
	if err == nil {
		sb, err = d.createContainer(ctx, g, spec, info, l)
	}
	if err != nil {
		if _, found, _ := engine.Inspect(ctx, d.API, spec.Name); found && errdefs.IsNotFound(err) {
			err = lifecycle.ErrExists // another command has won the race and removed our network
		}
		if g.isolation.network != "" {
			err = errors.Join(err, d.removeNetwork(context.WithoutCancel(ctx), g.isolation.network))
		}
		if !errors.Is(err, lifecycle.ErrExists) {
			err = errors.Join(err, d.removeUnusedGit(context.WithoutCancel(ctx), spec))
		}
		return lifecycle.Sandbox{}, err
	}
	return sb, nil
}

// prerequisites are what the container of a sandbox needs.
type prerequisites struct {
	program   guestbin.Payload // the installed ralph
	image     string
	mounts    []mount.Mount // besides those of all sandboxes
	isolation isolation
}

// checkPrerequisites looks everything up concurrently, and creates the volumes and the
// network. It adds the labels of the volumes to l. If it fails, it returns what was created.
func (d *Driver) checkPrerequisites(ctx context.Context, spec lifecycle.Spec, l map[string]string) (*prerequisites, error) {
	g, user := &prerequisites{}, l[labelUser]
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if g.program, err = d.ensureRalph(groupCtx, spec.Runtime); err == nil {
			g.mounts, err = d.mountsOf(groupCtx, spec, l)
		}
		return err
	})
	group.Go(func() (err error) { g.image, err = d.users().Map(groupCtx, spec.Image, user); return err })
	if spec.Egress.Policy.Mode != "" {
		group.Go(func() (err error) { g.isolation, err = d.isolate(ctx, spec, l[engine.LabelClient]); return err }) // not canceled, so that the result can be removed
	}
	return g, group.Wait()
}

// mountsOf returns the mounts of a sandbox, creates missing volumes, and adds their
// labels to l. The volumes are created in this order, so that of two clients at once one gets all of them.
func (d *Driver) mountsOf(ctx context.Context, spec lifecycle.Spec, l map[string]string) ([]mount.Mount, error) {
	own, err := d.createGit(ctx, spec, l)
	if err != nil {
		return nil, err
	}
	cache, err := d.createCache(ctx, spec, l)
	if err == nil && d.usesSockets(ctx, spec) {
		err = d.createSockets(ctx, spec.Name, l[engine.LabelClient])
	}
	if err != nil {
		return nil, err
	}
	mounts := slices.Concat(gitMounts(spec.Name, own), cache)
	if spec.SignDir != "" {
		if err := sshsign.MakeDir(spec.SignDir); err != nil {
			return nil, err
		}
		mounts = append(mounts, readOnlyBind(spec.SignDir, wire.SignDir))
	}
	switch {
	case spec.Config == "":
	case spec.Clone: // see [Driver.CopyConfig]
		mounts = append(mounts, mount.Mount{Type: mount.TypeVolume, Target: wire.ConfigPoint, VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: l}})
	default:
		if err := agentconfig.MakeShown(spec.Config); err != nil {
			return nil, err
		}
		mounts = append(mounts, readOnlyBind(spec.Config, wire.ConfigPoint))
	}
	return mounts, nil
}

// createContainer creates the container of a sandbox.
func (d *Driver) createContainer(ctx context.Context, g *prerequisites, spec lifecycle.Spec, info system.Info, l map[string]string) (lifecycle.Sandbox, error) {
	user := l[labelUser]
	host := hostConfig(spec, info, l)
	host.Mounts = append(host.Mounts, g.mounts...)
	l[labelLimits] = limits{spec.Resources, resourcesOf(host)}.String()
	config := &container.Config{
		Image:      g.image,
		User:       initUser,
		Hostname:   egress.Hostname,
		WorkingDir: spec.Root,
		Entrypoint: []string{g.program.Path(), "_init"},
		Cmd:        []string{},
		Labels:     l,
		StopSignal: "SIGTERM",
		Healthcheck: &container.HealthConfig{
			Test: []string{"NONE"}, // a health check of the image would run files of the agent
		},
	}
	networking := g.isolation.apply(config, host, l)
	made, err := d.createFromMapped(ctx, spec, user, client.ContainerCreateOptions{
		Name: spec.Name, Config: config, HostConfig: host, NetworkingConfig: networking,
	})
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	sb := fromLabels(made.ID, l)
	sb.State = lifecycle.Stopped
	if err := d.checkCreated(ctx, &sb, host.Mounts, g.isolation.network); err != nil {
		return lifecycle.Sandbox{}, errors.Join(err, d.Remove(context.WithoutCancel(ctx), sb))
	}
	return sb, nil
}

// checkCreated compares the mounts of a new container, adds the ID of its image, and removes what an earlier
// sandbox of the same name has left.
func (d *Driver) checkCreated(ctx context.Context, sb *lifecycle.Sandbox, mounts []mount.Mount, network string) error {
	res, err := d.API.ContainerInspect(ctx, sb.ID, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("inspecting sandbox %s: %w", sb.Name, err)
	}
	if err := compareMounts(res.Container.Mounts, mounts); err != nil {
		return err
	}
	sb.ImageID = res.Container.Image
	return d.removeStale(ctx, sb.Name, network, creation(res.Container))
}

// createFromMapped creates a container from a mapped image. Another process can replace
// the image at the same time, so it is looked up again.
func (d *Driver) createFromMapped(ctx context.Context, spec lifecycle.Spec, user string, options client.ContainerCreateOptions) (client.ContainerCreateResult, error) {
	for tries := 3; ; tries-- {
		made, err := d.API.ContainerCreate(ctx, options)
		if err == nil {
			return made, nil
		}
		if tries == 0 || !errdefs.IsNotFound(err) {
			return made, explainCreate(spec, err)
		}
		if options.Config.Image, err = d.users().Map(ctx, spec.Image, user); err != nil {
			return made, err
		}
	}
}

func hostConfig(spec lifecycle.Spec, info system.Info, l map[string]string) *container.HostConfig {
	mounts := []mount.Mount{
		{Type: mount.TypeVolume, Source: programs.Volume, Target: wire.MountPoint, ReadOnly: true, VolumeOptions: &mount.VolumeOptions{NoCopy: true}},
		// An anonymous volume is removed with the container.
		{Type: mount.TypeVolume, Target: userimage.Home, VolumeOptions: &mount.VolumeOptions{Labels: l}},
	}
	for _, dir := range hostDirs(spec) {
		mounts = append(mounts, mount.Mount{
			Type: mount.TypeBind, Source: dir, Target: dir,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
		})
	}
	resources := engineResources(spec.Resources, info)
	resources.Ulimits = ulimits()
	noInit := false
	host := &container.HostConfig{
		Mounts:         mounts,
		Init:           &noInit, // ours reaps processes, and not all engines have one
		CapDrop:        []string{"ALL"},
		SecurityOpt:    slices.Concat([]string{"no-new-privileges"}, seccompOpt(info), labelOpt(info)),
		IpcMode:        container.IPCModePrivate,
		CgroupnsMode:   container.CgroupnsModePrivate,
		LogConfig:      engine.BoundedLog(),
		Runtime:        spec.Runtime,
		ReadonlyRootfs: spec.ReadOnly,
		ShmSize:        cmp.Or(spec.Shm, config.DefaultShm),
		Resources:      resources,
		Tmpfs:          map[string]string{wire.SessionDir: sessionTmpfs()},
	}
	if spec.ReadOnly {
		// The engine's default is noexec, with which go test, cgo and pip fail.
		host.Tmpfs["/tmp"] = fmt.Sprintf("rw,exec,nosuid,nodev,size=%d,mode=1777", cmp.Or(spec.Tmp, config.DefaultTmp))
		host.Tmpfs["/run"] = "rw,noexec,nosuid,nodev,size=16m,mode=755"
	}
	return host
}

// hostDirs are the directories of the host that a sandbox can write to.
func hostDirs(spec lifecycle.Spec) []string {
	if spec.Clone {
		return nil
	}
	return append([]string{spec.Root}, spec.Mounts...)
}

// cloneHint is the remedy if the engine does not see the worktree: it is behind a tunnel, outside of
// this container, in a virtual machine, or the directory is on a file system of this user alone.
const cloneHint = "if the engine cannot see this directory, work in a clone with --workspace clone"

// explainCreate explains an error of the engine.
func explainCreate(spec lifecycle.Spec, err error) error {
	switch {
	case errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in use"):
		return lifecycle.ErrExists
	case strings.Contains(err.Error(), "bind source path does not exist") && spec.Config != "" && strings.Contains(err.Error(), spec.Config):
		return hint.Wrap(fmt.Errorf("mounting your agent settings from %s: %w", spec.Config, err), "share the directory with the engine's virtual machine, or set DOCKER_CONFIG to a shared one")
	case strings.Contains(err.Error(), "bind source path does not exist"):
		return hint.Wrap(fmt.Errorf("mounting worktree %s: %w", spec.Root, err), "%s", cloneHint)
	default:
		return fmt.Errorf("creating sandbox %s: %w", spec.Name, err)
	}
}

// Start implements [lifecycle.Driver]. Nothing but our own first process runs then:
// [Driver.Prepare], or else the first command, puts the firewall in place if there is one.
func (d *Driver) Start(ctx context.Context, sb lifecycle.Sandbox) error {
	if sb.State == lifecycle.Paused {
		return d.unpause(ctx, sb.ID)
	}
	if sb.Egress != "" {
		// The proxy's list of networks may be out of date, which [Driver.Ready] finds if
		// this succeeds.
		var look sync.WaitGroup
		defer look.Wait()
		look.Go(func() { _, _ = d.listNetworks(ctx) })
	}
	err := agentconfig.Recreate(sb.Config, d.Name(), sb.Name)
	if err == nil {
		_, err = d.API.ContainerStart(ctx, sb.ID, client.ContainerStartOptions{})
	}
	if err != nil && (strings.Contains(err.Error(), "already exists") || networkMissing(err)) {
		// An engine that was killed while it started a container does not know what it has
		// started, and "docker network prune" removes networks of stopped containers.
		err = fmt.Errorf("%w: %w", lifecycle.ErrStuck, err)
	}
	if err != nil {
		return fmt.Errorf("starting sandbox %s: %w", sb.Name, err)
	}
	d.cached.mu.Lock()
	defer d.cached.mu.Unlock()
	if d.cached.started == nil {
		d.cached.started, d.cached.open = map[string]bool{}, map[string]bool{}
	}
	d.cached.started[sb.ID] = true
	d.cached.open[sb.ID] = sb.Egress == egress.AllowAll
	return nil
}

// networkMissing reports whether a container cannot be started because its network does
// not exist.
func networkMissing(err error) bool {
	said := err.Error()
	return strings.Contains(said, "network") && strings.Contains(said, "not found")
}

// Stop implements [lifecycle.Driver]. The network and the proxy are kept for a fast
// start, but the proxy drops all keys.
func (d *Driver) Stop(ctx context.Context, sb lifecycle.Sandbox) error {
	_, err := d.API.ContainerStop(ctx, sb.ID, client.ContainerStopOptions{})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("stopping sandbox %s: %w", sb.Name, err)
	}
	switch {
	case sb.Proxy == "":
		return nil
	case err != nil:
		return d.RemoveProxy(ctx, sb)
	}
	return d.resetProxy(ctx, sb)
}

// Remove implements [lifecycle.Driver].
func (d *Driver) Remove(ctx context.Context, sb lifecycle.Sandbox) error {
	if err := engine.RemoveContainer(ctx, d.API, sb.ID); err != nil {
		return fmt.Errorf("removing sandbox %s: %w", sb.Name, err)
	}
	if sb.Egress != "" {
		if err := d.removeResources(ctx, sb); err != nil {
			return err
		}
	}
	if err := d.removeGit(ctx, sb); err != nil {
		return err
	}
	return d.Forget(sb)
}
