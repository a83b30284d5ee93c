package projectimage

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Change is what Ensure has to do for an image.
type Change string

// The changes.
const (
	ChangeNone  Change = "none"
	ChangeBuild Change = "build"
	ChangePull  Change = "pull"
)

// Plan is what [Builder.Ensure] would do, and why.
type Plan struct {
	Ref     string // the image that would be used
	Kind    string // "agent", "project", or "given" for a user's image
	Agent   string
	Project string
	Base    string // the image below; empty for a user's image
	Change  Change
	Why     string // a clause such as "not built yet"
}

// KindGiven is the kind of a user's image.
const KindGiven = "given"

// Needs returns the tags of the agent image and the layer of a request; none for a user's
// image.
func Needs(req Request) ([]string, error) {
	if req.Image != "" {
		return nil, nil
	}
	spec, err := specOf(req)
	if err != nil {
		return nil, err
	}
	tags := []string{spec.tag}
	if req.Project != nil {
		tags = append(tags, projectSpec(spec, req).tag)
	}
	return tags, nil
}

// Plan returns what Ensure would do. all is the result of [Builder.List].
func (b *Builder) Plan(ctx context.Context, req Request, all []Stored) (Plan, error) {
	if req.Image != "" {
		return b.givenPlan(ctx, req.Image)
	}
	agent, err := specOf(req)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{Ref: agent.tag, Kind: kindAgent, Agent: req.Agent, Base: agent.base}
	if req.Project == nil {
		image, found := tagged(all, agent.tag)
		switch {
		case !found:
			plan.Change, plan.Why = ChangeBuild, "not built yet"
			return plan, nil
		case !image.builtAs(agent):
			plan.Change, plan.Why = ChangeBuild, whyOtherDigest
			return plan, nil
		}
		return plan, b.upToDate(ctx, &plan, image)
	}
	spec := projectSpec(agent, req)
	plan.Ref, plan.Kind, plan.Project, plan.Base = spec.tag, kindProject, projectName(req.Project.Root), spec.base
	layer, found := tagged(all, spec.tag)
	if !found {
		plan.Change, plan.Why = ChangeBuild, whyRebuild(all, agent, spec)
		return plan, nil
	}
	if !layer.builtAs(spec) {
		plan.Change, plan.Why = ChangeBuild, whyOtherDigest
		return plan, nil
	}
	image, found := tagged(all, agent.tag)
	if found && image.ID != layer.BaseID {
		plan.Change, plan.Why = ChangeBuild, "image "+agent.tag+" was rebuilt"
		return plan, nil
	}
	return plan, b.upToDate(ctx, &plan, image)
}

func (b *Builder) givenPlan(ctx context.Context, ref string) (Plan, error) {
	plan := Plan{Ref: ref, Kind: KindGiven, Change: ChangeNone, Why: "used as it is"}
	_, found, err := b.lookup(ctx, ref)
	if err == nil && !found {
		plan.Change, plan.Why = ChangePull, "not on the engine yet"
	}
	return plan, err
}

// upToDate completes the plan for an image that exists. A new base image is mentioned, but
// used only on request: bases change often.
func (b *Builder) upToDate(ctx context.Context, plan *Plan, agent Stored) error {
	plan.Change, plan.Why = ChangeNone, "up to date"
	changed, err := b.baseChanged(ctx, agent.Base, agent.BaseID)
	if changed {
		plan.Why = fmt.Sprintf("base image %s has changed: use it with \"docker ralph image build\"", agent.Base)
	}
	return err
}

// BaseChanged reports whether the base of an existing agent image has changed since it was
// built.
func (b *Builder) BaseChanged(ctx context.Context, req Request) (bool, error) {
	spec, err := specOf(req)
	if err != nil {
		return false, err
	}
	image, found, err := b.inspect(ctx, spec.tag)
	if err != nil || !found || !spec.builtAs(image) {
		return false, err
	}
	return b.baseChanged(ctx, spec.base, imageLabel(image, labelBaseID))
}

// baseChanged reports whether base is no longer the image with an ID.
func (b *Builder) baseChanged(ctx context.Context, base, was string) (bool, error) {
	if was == "" { // unknown
		return false, nil
	}
	now, found, err := b.lookup(ctx, base)
	return found && now.ID != was, err
}

// whyRebuild returns why a project's layer is not the one that was built last.
func whyRebuild(all []Stored, agent, spec buildSpec) string {
	last, found := lastLayer(all, spec)
	if !found {
		return "not built yet"
	}
	var why []string
	if last.Base != agent.tag {
		why = append(why, whyOtherBase(all, last, agent))
	}
	if !slices.Contains(last.Tags, projectTag(spec.labels[labelAgent], last.Base, *spec.project)) {
		file := path.Join(projectFolder, filepath.Base(spec.project.File))
		if spec.project.contextDigest() != "" {
			file += " or another file there"
		}
		why = append(why, file+" changed")
	}
	return strings.Join(why, ", and ")
}

// whyOtherBase returns what is different about the agent image.
func whyOtherBase(all []Stored, layer Stored, agent buildSpec) string {
	if was, found := tagged(all, layer.Base); found && was.Base != agent.base {
		return fmt.Sprintf("base image changed from %s to %s", was.Base, agent.base)
	}
	return fmt.Sprintf("agent image changed from %s to %s", layer.Base, agent.tag)
}

// lastLayer returns the latest layer of a project for the same agent.
func lastLayer(all []Stored, spec buildSpec) (last Stored, found bool) {
	for _, s := range all {
		same := s.Kind == kindProject && s.Agent == spec.labels[labelAgent] && s.Project == spec.labels[labelProject] && len(s.Tags) > 0
		if same && (!found || s.Created.After(last.Created)) {
			last, found = s, true
		}
	}
	return last, found
}

// whyOtherDigest is the reason to rebuild an image that has only its tag in common.
const whyOtherDigest = "image with this tag was built from something else"

// builtAs reports whether an image was built from the content of spec.
func (s Stored) builtAs(spec buildSpec) bool { return s.Digest == spec.labels[labelDigest] }

func tagged(all []Stored, tag string) (Stored, bool) {
	i := slices.IndexFunc(all, func(s Stored) bool { return slices.Contains(s.Tags, tag) })
	if i < 0 {
		return Stored{}, false
	}
	return all[i], true
}
