package projectimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/client"
	"github.com/moby/sys/atomicwriter"

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
		},
	}
	if len(p.Packages) == 0 {
		spec.file = sandboxDockerfile
	}
	return spec
}

// ensureProject makes sure of a project's layer, and of the agent's image when
// the layer has to be built.
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
		// Whoever held the lock may have built it in the meantime.
		if image, found, err := b.lookupLayer(ctx, spec); err != nil || found {
			return image, err
		}
	}
	noted := b.notedBase(agent.tag)
	base, release, err := b.ensureHeld(ctx, agent, req)
	if err != nil {
		return Image{}, err
	}
	defer release()
	if err := b.noteBase(base); err != nil {
		return Image{}, err
	}
	if !req.force() && noted != "" && noted != base.ID {
		// The note was wrong about the layer: somebody else has built both.
		if image, found, err := b.lookupLayer(ctx, spec); err != nil || found {
			return image, err
		}
	}
	return b.buildLayer(ctx, spec, base, req.noCache())
}

// buildLayer builds a project's layer with the files of its folder at hand.
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
			err = refuse(projectPath(spec.project.Root, ""), "somebody removed it just now")
		}
		if err != nil {
			return Image{}, err
		}
		defer func() { _ = folder.Close() }()
		spec.ignored = spec.project.ignored
		files, err := contextFiles(folder, spec.ignored)
		if err != nil {
			return Image{}, fmt.Errorf("reading what %s may copy: %w", spec.project.File, err)
		}
		spec.context = newVerifiedFS(files, spec.project.files)
	}
	return b.buildOn(ctx, spec, base.ID, kindProject, noCache)
}

// lookupLayer looks for a project's layer. One that is built on an image that
// its base is no longer does not count.
func (b *Builder) lookupLayer(ctx context.Context, spec buildSpec) (_ Image, found bool, _ error) {
	result, found, err := b.inspect(ctx, spec.tag)
	if err != nil || !found {
		return Image{}, false, err
	}
	if noted := b.notedBase(spec.base); noted != "" && noted != imageLabel(result, labelBaseID) {
		return Image{}, false, nil
	}
	return Image{Ref: spec.tag, ID: result.ID}, true, nil
}

func imageLabel(image client.ImageInspectResult, name string) string {
	if image.Config == nil {
		return ""
	}
	return image.Config.Labels[name]
}

// basePath is where the ID of an agent's image is noted, for one engine. With
// it a project's layer whose base was rebuilt for another project is found out
// without asking the engine for more than the layer.
func (b *Builder) basePath(tag string) string {
	engine := sha256.Sum256([]byte(b.Engine.DaemonHost()))
	name := strings.NewReplacer(":", "-", "/", "-").Replace(tag)
	return filepath.Join(b.LockDir, "image-"+name+"-"+hex.EncodeToString(engine[:])[:8]+".id")
}

// notedBase returns the noted ID of an agent's image, "" for none.
func (b *Builder) notedBase(tag string) string {
	id, err := os.ReadFile(b.basePath(tag))
	if err != nil {
		return ""
	}
	return string(id)
}

// noteBase notes the ID of an agent's image.
func (b *Builder) noteBase(image Image) error {
	path := b.basePath(image.Ref)
	if had, err := os.ReadFile(path); err == nil && string(had) == image.ID {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("noting the ID of image %q: %w", image.Ref, err)
	}
	if err := atomicwriter.WriteFile(path, []byte(image.ID), 0o600); err != nil {
		return fmt.Errorf("noting the ID of image %q: %w", image.Ref, err)
	}
	return nil
}

// notFound are apt's words for a package that it cannot find, with the version
// when it is only that.
var notFound = lazyregexp.New(`^E: (?:Unable to locate package |Package '|Version '([^']*)' for '|Couldn't find any package by (?:glob|regex) ')([^' ]+)`)

// askedFor returns the lines of the project's file that ask for the packages
// that apt does not find.
func (p *Project) askedFor(log []string) []string {
	missing := map[Package]bool{}
	for _, line := range log {
		match := notFound().FindStringSubmatch(line)
		if match == nil {
			continue
		}
		for _, wanted := range p.Packages {
			if wanted.isMeant(match[2], match[1]) {
				missing[wanted] = true
			}
		}
	}
	var asked []string
	for _, wanted := range p.Packages { // in the file's order
		if missing[wanted] && len(asked) < maxProblems {
			asked = append(asked, fmt.Sprintf("%s:%d asks for %s", p.File, wanted.Line, wanted.Name))
		}
	}
	return asked
}

// isMeant reports whether apt means p by a name and, if it misses no more than
// that, a version.
func (p Package) isMeant(name, version string) bool {
	plain, pinned, _ := strings.Cut(p.Name, "=")
	bare, _, _ := strings.Cut(plain, ":")
	if version != "" && version != pinned {
		return false
	}
	// A plus at the end, where no package has that name, tells apt-get to install.
	return name == plain || name == bare || name+"+" == plain
}
