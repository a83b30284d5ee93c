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

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/ralph/guest"
)

// nobody is the user of a sandbox's first process. It is another one than the
// agent's, so that the agent cannot stop or kill it.
const nobody = "65534:65534"

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
	user, err := chooseUser(info, spec.User)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	program, err := d.ensureGuest(ctx)
	if err != nil {
		return lifecycle.Sandbox{}, err
	}
	l := labels(spec)
	l[labelUser] = user
	made, err := d.API.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: spec.Name,
		Config: &container.Config{
			Image:      spec.Image,
			User:       nobody,
			Hostname:   "sandbox",
			WorkingDir: spec.Root,
			Entrypoint: []string{program.Path(), "_init"},
			Cmd:        []string{},
			Labels:     l,
			StopSignal: "SIGTERM",
			Healthcheck: &container.HealthConfig{
				Test: []string{"NONE"}, // an image's own would run what the agent can change
			},
		},
		HostConfig: hostConfig(spec, info, l),
	})
	if err != nil {
		return lifecycle.Sandbox{}, explainCreate(spec, err)
	}
	sb := fromLabels(made.ID, l)
	sb.State = lifecycle.Stopped
	return sb, nil
}

func hostConfig(spec lifecycle.Spec, info system.Info, l map[string]string) *container.HostConfig {
	mounts := []mount.Mount{
		{Type: mount.TypeVolume, Source: guestVolume, Target: guest.MountPoint, ReadOnly: true, VolumeOptions: &mount.VolumeOptions{NoCopy: true}},
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
	return &container.HostConfig{
		Mounts:      mounts,
		Init:        &noInit, // ours does that work, and old and bare engines have none
		CapDrop:     []string{"ALL"},
		SecurityOpt: []string{"no-new-privileges"},
		IpcMode:     container.IPCModePrivate,
		Resources: container.Resources{
			Memory:     memory,
			MemorySwap: memory,
			NanoCPUs:   atMost(spec.Resources.NanoCPUs, int64(info.NCPU)*1e9),
			PidsLimit:  &pids,
		},
	}
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

// checkMounts refuses work trees that would hand over much more than a
// project.
func checkMounts(spec lifecycle.Spec) error {
	home, _ := os.UserHomeDir()
	for _, dir := range append([]string{spec.Root}, spec.Mounts...) {
		if !strings.HasPrefix(dir, "/") {
			return fmt.Errorf("the work tree %s cannot be mounted at the same path in a Linux container: on Windows, run docker ralph inside WSL", dir)
		}
		if dir == "/" || home != "" && (dir == home || strings.HasPrefix(home, strings.TrimSuffix(dir, "/")+"/")) {
			return fmt.Errorf("%s would give your whole home directory to the agent: move the repository into a folder of its own", dir)
		}
		if strings.HasPrefix(dir+"/", guest.MountPoint+"/") || strings.HasPrefix(guest.MountPoint, dir+"/") {
			return fmt.Errorf("%s cannot be mounted: sandboxes have ralph at %s", dir, guest.MountPoint)
		}
	}
	return nil
}

// chooseUser returns the UID:GID that commands in the sandbox run as, so that
// files in the bind mounts end up with the invoking user.
func chooseUser(info system.Info, user lifecycle.User) (string, error) {
	has := func(name string) bool {
		return slices.ContainsFunc(info.SecurityOptions, func(o string) bool {
			return slices.Contains(strings.Split(o, ","), "name="+name)
		})
	}
	switch {
	case has("rootless"):
		// There, 0 in the container is the user outside.
		return "0:0", nil
	case has("userns"):
		return "", errors.New("the engine remaps users (userns-remap), so files of the sandbox would belong to somebody else: use an engine without it")
	default:
		return fmt.Sprintf("%d:%d", user.UID, user.GID), nil
	}
}

// explainCreate adds what to do to the engine's words.
func explainCreate(spec lifecycle.Spec, err error) error {
	switch {
	case errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in use"):
		return lifecycle.ErrExists
	case strings.Contains(err.Error(), "bind source path does not exist"):
		return fmt.Errorf("the engine does not see the work tree %s: it runs on another machine, or in a virtual machine that the folder is not shared with (%w)", spec.Root, err)
	default:
		return fmt.Errorf("creating the sandbox %s: %w", spec.Name, err)
	}
}

// Start implements [lifecycle.Driver].
func (d *Driver) Start(ctx context.Context, sb lifecycle.Sandbox) error {
	if _, err := d.API.ContainerStart(ctx, sb.ID, client.ContainerStartOptions{}); err != nil {
		return fmt.Errorf("starting the sandbox %s: %w", sb.Name, err)
	}
	return nil
}

// Stop implements [lifecycle.Driver].
func (d *Driver) Stop(ctx context.Context, sb lifecycle.Sandbox) error {
	if _, err := d.API.ContainerStop(ctx, sb.ID, client.ContainerStopOptions{}); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("stopping the sandbox %s: %w", sb.Name, err)
	}
	return nil
}

// Remove implements [lifecycle.Driver].
func (d *Driver) Remove(ctx context.Context, sb lifecycle.Sandbox) error {
	_, err := d.API.ContainerRemove(ctx, sb.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("removing the sandbox %s: %w", sb.Name, err)
	}
	if err := os.Remove(d.markerPath(sb.Name)); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("removing the sandbox %s: %w", sb.Name, err)
	}
	return nil
}

func (d *Driver) markerPath(name string) string {
	return filepath.Join(d.StateDir, "sandboxes", name+".json")
}
