package projectimage

import (
	"context"
	"fmt"
	"strings"

	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/lazyregexp"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// projectSpec describes the layer of req's project on an agent's image.
func projectSpec(agent buildSpec, req Request) buildSpec {
	p := req.Project
	spec := buildSpec{
		tag:        projectTag(req.Agent, agent.tag, *p),
		base:       agent.tag,
		platform:   agent.platform,
		dockerfile: p.Dockerfile,
		project:    p,
		labels: map[string]string{
			labelCreatedBy: createdBy,
			labelAgent:     req.Agent,
			labelProject:   projectName(p.Root),
			labelBase:      agent.tag,
			labelDigest:    projectDigest(agent.labels[labelDigest], *p),
		},
	}
	if len(p.Packages) == 0 {
		spec.file = sandboxDockerfile
	}
	return spec
}

// ensureProject ensures a project's layer, and the agent image if the layer has to be built.
func (b *Builder) ensureProject(ctx context.Context, agent buildSpec, req Request) (Image, error) {
	if req.Project.own() && !req.Project.Approved {
		return Image{}, fmt.Errorf("building %s: not approved", req.Project.File)
	}
	spec := projectSpec(agent, req)
	if !req.force() {
		if image, found, err := b.lookupLayer(ctx, spec); err != nil || found {
			return image, err
		}
	}
	unlock, err := b.lock(ctx, spec.tag)
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if !req.force() {
		// The previous holder of the lock may have built it.
		if image, found, err := b.lookupLayer(ctx, spec); err != nil || found {
			return image, err
		}
	}
	base, release, err := b.ensureShared(ctx, agent, req)
	if err != nil {
		return Image{}, err
	}
	defer release()
	return b.buildLayer(ctx, spec, base, req.noCache())
}

// buildLayer builds a project's layer.
func (b *Builder) buildLayer(ctx context.Context, spec buildSpec, base Image, noCache bool) (Image, error) {
	for _, note := range spec.project.Notes {
		b.Progress.notice("%s", termsafe.Visible(note))
	}
	if err := spec.project.checkOffline(); err != nil {
		return Image{}, err
	}
	if spec.project.own() {
		folder, err := openProjectFolder(spec.project.Root)
		if err == nil && folder == nil {
			err = refuse(projectPath(spec.project.Root, ""), "removed while it was read")
		}
		if err != nil {
			return Image{}, err
		}
		defer func() { _ = folder.Close() }()
		spec.ignored = spec.project.ignored
		files, err := contextFiles(folder, spec.ignored)
		if err != nil {
			return Image{}, fmt.Errorf("reading the build context of %s: %w", spec.project.File, err)
		}
		spec.context = newVerifiedFS(files, spec.project.files)
	}
	return b.buildOn(ctx, spec, base.ID, kindProject, noCache)
}

// lookupLayer looks up a project's layer, unless its base was rebuilt since. It does not need
// its base. Both are inspected at the same time, because engines take a while for each.
func (b *Builder) lookupLayer(ctx context.Context, spec buildSpec) (_ Image, found bool, _ error) {
	var layer client.ImageInspectResult
	var base Image
	var hasBase bool
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { layer, found, err = b.inspect(groupCtx, spec.tag); return err })
	group.Go(func() (err error) { base, hasBase, err = b.lookup(groupCtx, spec.base); return err })
	if err := group.Wait(); err != nil || !found || !spec.builtAs(layer) || hasBase && base.ID != imageLabel(layer, labelBaseID) {
		return Image{}, false, err
	}
	return Image{Ref: spec.tag, ID: layer.ID}, true, nil
}

// builtAs reports whether an image was built from the content of spec.
func (s buildSpec) builtAs(image client.ImageInspectResult) bool {
	return imageLabel(image, labelDigest) == s.labels[labelDigest]
}

func imageLabel(image client.ImageInspectResult, name string) string {
	if image.Config == nil {
		return ""
	}
	return image.Config.Labels[name]
}

// notFound matches apt's errors for a missing package, or a missing version of it.
var notFound = lazyregexp.New(`^E: (?:Unable to locate package |Package '|Version '([^']*)' for '|Couldn't find any package by (?:glob|regex) ')([^' ]+)`)

// missing returns the lines of the project's file with packages that apt does not find.
func (p *Project) missing(log []string) []string {
	missing := map[Package]bool{}
	for _, line := range log {
		match := notFound().FindStringSubmatch(line)
		if match == nil {
			continue
		}
		for _, wanted := range p.Packages {
			if wanted.matches(match[2], match[1]) {
				missing[wanted] = true
			}
		}
	}
	var lines []string
	for _, wanted := range p.Packages { // in the file's order
		if missing[wanted] && len(lines) < maxProblems {
			lines = append(lines, fmt.Sprintf("%s:%d: no package %s", p.File, wanted.Line, wanted.Name))
		}
	}
	return lines
}

// matches reports whether p is what apt calls by a name and, if only that is missing, a
// version.
func (p Package) matches(name, version string) bool {
	plain, pinned, _ := strings.Cut(p.Name, "=")
	bare, _, _ := strings.Cut(plain, ":")
	if version != "" && version != pinned {
		return false
	}
	// apt-get strips a trailing plus, which means to install.
	return name == plain || name == bare || name+"+" == plain
}
