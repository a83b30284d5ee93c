package projectimage

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Change is what has to be done before an image can be used.
type Change string

// The changes.
const (
	ChangeNone  Change = "none"
	ChangeBuild Change = "build"
	ChangePull  Change = "pull"
)

// Outlook is what [Builder.Ensure] would do for a request, and why.
type Outlook struct {
	Ref     string // the image that would be used
	Kind    string // "agent", "project", or "given" for one that is used as it is
	Agent   string
	Project string
	Base    string // what it would be built on; empty for a given one
	Change  Change
	Why     string // a clause such as "not built yet"
}

// KindGiven is the kind of an image that is used as it is.
const KindGiven = "given"

// Needs returns the tags of the images that a request is about: the agent's and
// the project's. For a given image there are none.
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

// Outlook tells what Ensure would do. Nothing is built or pulled for it. all is
// what [Builder.List] has returned.
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
		return look, b.settled(ctx, &look, image)
	}
	spec := projectSpec(agent, req)
	look.Ref, look.Kind, look.Project, look.Base = spec.tag, kindProject, projectName(req.Project.Root), spec.base
	layer, found := tagged(all, spec.tag)
	if !found {
		look.Change, look.Why = ChangeBuild, whyAnother(all, agent, spec)
		return look, nil
	}
	image, _ := tagged(all, agent.tag)
	if noted := b.notedBase(agent.tag); noted != "" && noted != layer.BaseID && image.ID != layer.BaseID {
		look.Change, look.Why = ChangeBuild, "the image "+agent.tag+" was rebuilt"
		return look, nil
	}
	return look, b.settled(ctx, &look, image)
}

func (b *Builder) givenOutlook(ctx context.Context, ref string) (Outlook, error) {
	look := Outlook{Ref: ref, Kind: KindGiven, Change: ChangeNone, Why: "used as it is"}
	_, found, err := b.lookup(ctx, ref)
	if err == nil && !found {
		look.Change, look.Why = ChangePull, "not on the engine yet"
	}
	return look, err
}

// settled completes the outlook for an image that nothing has to be done for.
// That the base of its agent's image has changed is worth a word, but takes
// somebody to ask for it: bases change all the time.
func (b *Builder) settled(ctx context.Context, look *Outlook, agent Stored) error {
	look.Change, look.Why = ChangeNone, "up to date"
	changed, err := b.baseChanged(ctx, agent.Base, agent.BaseID)
	if changed {
		look.Why = fmt.Sprintf("the base %s is another one now: to build on it, run \"docker ralph image build\"", agent.Base)
	}
	return err
}

// BaseChanged reports whether the agent's image of a request is there, but was
// built on an image that its base is no longer.
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

// baseChanged reports whether base is another image now than that with the ID was.
func (b *Builder) baseChanged(ctx context.Context, base, was string) (bool, error) {
	if was == "" { // the first versions did not say
		return false, nil
	}
	now, found, err := b.lookup(ctx, base)
	return found && now.ID != was, err
}

// whyAnother says why a project's layer is not the one that was built last.
func whyAnother(all []Stored, agent, spec buildSpec) string {
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
			file += ", or a file beside it,"
		}
		why = append(why, file+" changed")
	}
	return strings.Join(why, ", and ")
}

// whyOtherBase says what is different about the agent's image.
func whyOtherBase(all []Stored, layer Stored, agent buildSpec) string {
	if was, found := tagged(all, layer.Base); found && was.Base != agent.base {
		return fmt.Sprintf("the base is another one now (%s instead of %s)", agent.base, was.Base)
	}
	return fmt.Sprintf("the agent's image is another one now (%s instead of %s)", agent.tag, layer.Base)
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
