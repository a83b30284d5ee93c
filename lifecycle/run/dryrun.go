package run

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/docker-ralph/docker-ralph/credential"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// DryRun prints what a command would do, and changes nothing.
func DryRun(ctx context.Context, h host.Host, opts Options) error {
	h, found, err := h.Existing(ctx, opts.Worktree)
	if err == nil && !found {
		err = fmt.Errorf("no worktree %q: the command would create it", opts.Worktree.Name)
	}
	if err != nil {
		return err
	}
	opts.Worktree, h.Confirm = nil, nil
	t, err := resolve(ctx, h, opts, h.Connect())
	if err != nil {
		return err
	}
	if _, err := signs(ctx, h, t, t.spec.Private, &t.spec); err != nil {
		return err
	}
	sandbox, err := ensurer(h, t, nil).Preview(ctx, t.spec, opts.Recreate)
	if err != nil {
		return err
	}
	image, err := t.previewImage(ctx)
	if err != nil {
		return err
	}
	repo, err := gitsync.Open(t.wt, t.spec.Name, h.StateDir)
	if err != nil {
		return err
	}
	changed, err := repo.Uncommitted(ctx)
	if err != nil {
		return err
	}
	uncommitted := "none"
	if len(changed) > 0 {
		uncommitted = fmt.Sprintf("%s: %s", host.Count(len(changed), "file"), host.Some(changed))
	}
	key, err := t.previewKey(ctx, h)
	if err != nil {
		return err
	}
	task, err := t.previewTask(ctx)
	if err != nil {
		return err
	}
	lines := [][2]string{
		{"Scope", fmt.Sprintf("%s, branch %s", t.wt.Scope.Repo, t.wt.Scope.Branch)},
		{"Worktree", t.wt.Root},
		{"Sandbox", fmt.Sprintf("%s (driver %s) %s", t.spec.Name, t.Kind, sandbox)},
		{"Image", image},
		{"Network", fmt.Sprintf("%s (%s)", cmp.Or(string(t.spec.Egress.Policy.Mode), "default"), t.cfg.Origins["sandbox.network.policy"])},
		{"Agent", fmt.Sprintf("%s (%s)", t.cfg.Agent.Name, t.cfg.Origins["agent.name"])},
		{"Key", key},
		{"Next task", task},
		{"Uncommitted", uncommitted},
		{"Command", "ralph " + strings.Join(append([]string{opts.Command}, opts.Args...), " ")},
	}
	for _, line := range lines {
		if _, err := fmt.Fprintf(h.Stdout, "%-13s%s\n", line[0]+":", termsafe.Line(line[1])); err != nil {
			return err
		}
	}
	return nil
}

func (t Target) previewImage(ctx context.Context) (string, error) {
	if t.API == nil {
		return t.Image, nil
	}
	_, err := t.API.ImageInspect(ctx, t.Image)
	switch {
	case errdefs.IsNotFound(err) && t.Build:
		return t.Image + " would be built", nil
	case errdefs.IsNotFound(err):
		return t.Image + " would be pulled", nil
	case err != nil:
		return "", fmt.Errorf("inspecting the image %s: %w", t.Image, err)
	case t.opts.Rebuild && t.Build:
		return t.Image + " would be rebuilt", nil
	}
	return t.Image, nil
}

// previewTask returns the task that the next agent would claim. Only the sandbox can read the
// backlog.
func (t Target) previewTask(ctx context.Context) (string, error) {
	sb, err := t.Driver.Lookup(ctx, t.spec.Name)
	if err != nil {
		return "", err
	}
	switch _, err := os.Stat(filepath.Join(t.wt.Root, ".ralph", "tasks.db")); {
	case errors.Is(err, fs.ErrNotExist) && !sb.Private:
		return "none", nil // reading it would create the database
	case sb.State != lifecycle.Running:
		return "unknown: the sandbox is not running", nil
	}
	var peeked bytes.Buffer
	limited := &lifecycle.Limited{To: &peeked, Left: 64 << 10}
	if err := lifecycle.RunService(ctx, t.Driver, sb, nil, limited, wire.Program, host.TaskCommand, "peek", "-n", "1"); err != nil {
		return "", fmt.Errorf("reading the backlog: %w", err)
	}
	var task [3]string
	for line := range strings.Lines(peeked.String()) {
		for i, key := range []string{"id: ", "title: ", "status: "} {
			if value, found := strings.CutPrefix(line, key); found && task[i] == "" {
				task[i] = strings.TrimSpace(value)
			}
		}
	}
	switch {
	case task[0] == "":
		return "none", nil
	case task[2] != "open": // another loop has it, or has died with it
		return fmt.Sprintf("%s %s (%s)", task[0], task[1], task[2]), nil
	}
	return task[0] + " " + task[1], nil
}

// previewKey names the source of the agent's key.
func (t Target) previewKey(ctx context.Context, h host.Host) (string, error) {
	variables := credential.KeyVariables(t.cfg.Agent.Name)
	for _, name := range variables {
		if h.Getenv(name) != "" {
			return name, nil
		}
	}
	keys, err := routeKeys(ctx, h, t)
	switch {
	case err != nil:
		return "", err
	case len(t.cloud) > 0:
		return "AWS credentials", nil
	case keys != nil && len(keys.Routes) > 0:
		return "login on this machine", nil
	case len(variables) == 0:
		return "none needed", nil
	}
	return "none: " + strings.Join(variables, " or ") + " is not set", nil
}
