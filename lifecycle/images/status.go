package images

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
	"github.com/docker-ralph/docker-ralph/projectimage"
)

// Status describes an image. Its names in JSON are part of the command's interface.
type Status struct {
	Image   string     `json:"image"`   // its tag, or its ID if the tag has moved
	ID      string     `json:"id"`      // empty if it does not exist
	Kind    string     `json:"kind"`    // agent, project, given, user-mapped or template
	Agent   string     `json:"agent"`   // empty for a given one
	Project string     `json:"project"` // empty unless it is a project image
	Base    string     `json:"base"`    // the image that it is built on
	Created *time.Time `json:"created"` // nil if unknown
	Size    int64      `json:"size"`    // bytes, including shared layers
	UsedBy  []string   `json:"used_by"` // sandboxes and other containers
	Current bool       `json:"current"` // the image of the scope's next sandbox
	Change  string     `json:"change"`  // what the next sandbox needs first: none, build or pull; empty unless Current
	Status  string     `json:"status"`  // for people
}

// kindTemplate is the kind of an image that Docker provides for a microVM.
const kindTemplate = "template"

// List lists the images of docker ralph on the engine, the one for the next sandbox
// of the current scope first.
func List(ctx context.Context, h host.Host, over config.Overrides) ([]Status, error) {
	connected := h.Connect()
	h.Confirm = nil
	s, unknown := findImageScope(ctx, h, over)
	api, err := connected()
	if err != nil {
		return nil, err
	}
	builder := h.Builder(api)
	all, err := Stored(ctx, h, builder)
	if err != nil {
		return nil, err
	}
	list := []Status{}
	var needed []string
	switch {
	case unknown == nil && s.inside:
		var now Status
		if now, unknown = currentImage(ctx, h, s, builder, all, connected); unknown == nil {
			list = append(list, now)
			needed, unknown = projectimage.Needs(s.req)
		}
	case unknown == nil:
		h.Report("Not inside a git repository: listing all images")
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if unknown != nil {
		h.Warn(fmt.Errorf("resolving the image of this project: %w", unknown))
	}
	unused := projectimage.Unused(all, needed)
	for _, image := range all {
		if len(list) > 0 && list[0].Current && list[0].ID == image.ID {
			continue
		}
		list = append(list, storedStatus(image, needed, unused))
	}
	return list, nil
}

// storedStatus returns the status of an image other than the current one.
func storedStatus(image projectimage.Stored, needed []string, unused []projectimage.Stored) Status {
	status := Status{Image: image.Name(), Kind: image.Kind, Agent: image.Agent, Project: image.Project, Base: image.Base}
	status.add(image)
	switch {
	case slices.ContainsFunc(unused, func(u projectimage.Stored) bool { return u.ID == image.ID }):
		status.Status = "unused"
	case len(image.UsedBy) > 0:
		status.Status = "in use"
	case slices.ContainsFunc(image.Tags, func(tag string) bool { return slices.Contains(needed, tag) }):
		status.Status = "this project's image is built on it"
	case len(image.Foreign) > 0:
		status.Status = "also called " + image.Foreign[0]
	case image.Origin != "":
		status.Status = "made from this project's image"
	default:
		status.Status = "an image in use is built on it"
	}
	return status
}

// add fills in what only existing images have.
func (s *Status) add(image projectimage.Stored) {
	if !image.Created.IsZero() {
		created := image.Created.UTC()
		s.Created = &created
	}
	s.ID, s.Size, s.UsedBy = image.ID, image.Size, image.UsedBy
	if s.UsedBy == nil {
		s.UsedBy = []string{}
	}
}

// currentImage returns the status of the image of the scope's next sandbox.
func currentImage(ctx context.Context, h host.Host, s imageScope, builder *projectimage.Builder, all []projectimage.Stored, connected func() (host.API, error)) (Status, error) {
	name := ""
	at := run.Choice{Backend: host.Backend{Kind: s.cfg.Sandbox.Driver}, Build: true}
	if s.wt.Scope.Repo != "" {
		var err error
		if at, err = run.Choose(ctx, h, s.wt, s.cfg, s.req, connected); err != nil {
			return Status{}, err
		}
		if name, err = h.SandboxName(s.wt); err != nil {
			return Status{}, err
		}
	}
	now := Status{Current: true, UsedBy: []string{}}
	if !at.Build {
		now.Image, now.Kind, now.Change = at.Image, kindTemplate, string(projectimage.ChangeNone)
		now.Status = "Docker's template, pulled by " + at.Kind
		if s.req.Image != "" {
			now.Kind, now.Status = projectimage.KindGiven, "used as it is, pulled by "+at.Kind
		}
		return now, nil
	}
	plan, err := builder.Plan(ctx, s.req, all)
	if err != nil {
		return Status{}, err
	}
	now.Image, now.Kind, now.Agent, now.Project, now.Base = plan.Ref, plan.Kind, plan.Agent, plan.Project, plan.Base
	now.Change, now.Status = string(plan.Change), plan.Why
	for _, image := range all {
		if slices.Contains(image.Tags, plan.Ref) {
			now.add(image)
		}
	}
	if plan.Kind == projectimage.KindGiven {
		image, found, err := builder.Find(ctx, plan.Ref)
		if err != nil {
			return Status{}, err
		}
		if found {
			now.add(image)
		}
	}
	if other := otherImage(h, name, at.Kind, plan.Ref, all); other != "" {
		now.Status += fmt.Sprintf("; sandbox %s uses %s", name, other)
	}
	return now, nil
}

// otherImage returns the image of the scope's sandbox if it is known and not ref.
func otherImage(h host.Host, name, driver, ref string, all []projectimage.Stored) string {
	if driver != config.DriverContainer {
		if made, _ := microvm.Remembered(h.StateDir, driver, name); made.Image != ref {
			return made.Image
		}
		return ""
	}
	for _, image := range all {
		if image.Origin == "" && slices.Contains(image.UsedBy, name) && !slices.Contains(image.Tags, ref) {
			return image.Name()
		}
	}
	return ""
}
