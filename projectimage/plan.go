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

// Outlook is what [Builder.Ensure] would do, and why.
type Outlook struct {
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

// Outlook returns what Ensure would do. all is the result of [Builder.List].
func (b *Builder) Outlook(ctx context.Context, req Request, all []Stored) (Outlook, error) {
	if req.Image != "" {
		return b.givenOutlook(ctx, req.Image)
	}
	agent, err := specOf(req)
	if err != nil {
		return Outlook{}, err
	}
	look := Outlook{Ref: agent.tag, Kind: kindAgent, Agent: req.Agent, Base: agent.base}
	if req.Project == nil {
		image, found := tagged(all, agent.tag)
		if !found {
			look.Change, look.Why = ChangeBuild, "not built yet"
			return look, nil
		}
		return look, b.upToDate(ctx, &look, image)
	}
	spec := projectSpec(agent, req)
	look.Ref, look.Kind, look.Project, look.Base = spec.tag, kindProject, projectName(req.Project.Root), spec.base
	layer, found := tagged(all, spec.tag)
	if !found {
		look.Change, look.Why = ChangeBuild, whyRebuild(all, agent, spec)
		return look, nil
	}
	image, _ := tagged(all, agent.tag)
	if recorded := b.recordedBase(agent.tag); recorded != "" && recorded != layer.BaseID && image.ID != layer.BaseID {
		look.Change, look.Why = ChangeBuild, "image "+agent.tag+" was rebuilt"
		return look, nil
	}
	return look, b.upToDate(ctx, &look, image)
}

func (b *Builder) givenOutlook(ctx context.Context, ref string) (Outlook, error) {
	look := Outlook{Ref: ref, Kind: KindGiven, Change: ChangeNone, Why: "used as it is"}
	_, found, err := b.lookup(ctx, ref)
	if err == nil && !found {
		look.Change, look.Why = ChangePull, "not on the engine yet"
	}
	return look, err
}

// upToDate completes the outlook for an image that exists. A new base image is mentioned, but
// used only on request: bases change often.
func (b *Builder) upToDate(ctx context.Context, look *Outlook, agent Stored) error {
	look.Change, look.Why = ChangeNone, "up to date"
	changed, err := b.baseChanged(ctx, agent.Base, agent.BaseID)
	if changed {
		look.Why = fmt.Sprintf("base image %s has changed: use it with \"docker ralph image build\"", agent.Base)
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
	if err != nil || !found {
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

func tagged(all []Stored, tag string) (Stored, bool) {
	i := slices.IndexFunc(all, func(s Stored) bool { return slices.Contains(s.Tags, tag) })
	if i < 0 {
		return Stored{}, false
	}
	return all[i], true
}
