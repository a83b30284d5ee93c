//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/projectimage"
)

const (
	checks       = 50
	builds       = 7
	contextFiles = 200
	packageSize  = 1 << 20

	imageCheckGoal = 10 * time.Millisecond
	imageBuildGoal = 1.1

	// Debian's package installs without a network, so that its mirror is not
	// measured. The stamp is another one in each build: nothing after it is cached.
	packageLayer = `ARG BASE_IMAGE
FROM ${BASE_IMAGE}
USER root
COPY package.deb stamp /tmp/
RUN dpkg --install /tmp/package.deb && rm /tmp/package.deb /tmp/stamp
USER agent
`
	contextLayer = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY . /srv/\n"
)

// images measures what projects' images cost on each engine.
func (b *bench) images() error {
	return b.eachEngine(func() error {
		return errors.Join(b.imageChecks(), b.imageBuilds())
	})
}

// imageChecks measures what an unchanged project adds to a dispatch: its files
// are read, and the engine is asked for the image.
func (b *bench) imageChecks() error {
	one := map[string]string{"dependencies": "git # there already\n"}
	many := map[string]string{"Dockerfile.sandbox": contextLayer}
	for i := range contextFiles {
		many[fmt.Sprintf("tools/%02d/%03d", i%10, i)] = strings.Repeat(fmt.Sprintf("line %d\n", i), 500)
	}
	for _, m := range []struct {
		what  string
		files map[string]string
	}{
		{"image check, a list of packages", one},
		{fmt.Sprintf("image check, %d files to copy", contextFiles), many},
	} {
		c, err := b.imageCheck(m.files)
		if err != nil {
			return err
		}
		fmt.Printf("%-7s %-32s %s, files alone %s, bare inspect %s (goal: at most %s)\n",
			b.engine, m.what, ms(median(c.all)), ms(median(c.files)), ms(median(c.inspect)), ms(imageCheckGoal))
	}
	return nil
}

// imageCost is what checks of an image took: all of it, as when a sandbox is
// made, and what of that happens for one that is there. The engine's answer is
// also measured by itself.
type imageCost struct{ all, files, inspect []time.Duration }

func (b *bench) imageCheck(files map[string]string) (cost imageCost, err error) {
	root, err := os.MkdirTemp(b.dir, "check-")
	if err != nil {
		return cost, err
	}
	if err := writeFiles(filepath.Join(root, ".agent-loop"), files); err != nil {
		return cost, err
	}
	engine, err := client.New(client.WithHost(b.host))
	if err != nil {
		return cost, err
	}
	defer func() { _ = engine.Close() }()
	builder := &projectimage.Builder{Engine: engine, LockDir: filepath.Join(b.dir, "locks")}
	req, err := b.imageRequest(root)
	if err != nil {
		return cost, err
	}
	built, err := builder.Ensure(b.ctx, req)
	if err != nil {
		return cost, err
	}
	defer func() { _, _ = engine.ImageRemove(b.ctx, built.Ref, client.ImageRemoveOptions{}) }()
	for range checks {
		start := time.Now()
		req, err := b.imageRequest(root)
		if err != nil {
			return cost, err
		}
		files := time.Since(start)
		image, err := builder.Ensure(b.ctx, req)
		if err != nil {
			return cost, err
		}
		cost.all, cost.files = append(cost.all, time.Since(start)), append(cost.files, files)
		if image.Built {
			return cost, fmt.Errorf("the unchanged image %s was built again", image.Ref)
		}
		start = time.Now()
		if _, err := engine.ImageInspect(b.ctx, image.Ref); err != nil {
			return cost, err
		}
		cost.inspect = append(cost.inspect, time.Since(start))
	}
	return cost, nil
}

// imageRequest reads what a project asks for.
func (b *bench) imageRequest(root string) (projectimage.Request, error) {
	project, _, err := projectimage.FindProject(b.ctx, root)
	if err != nil {
		return projectimage.Request{}, err
	}
	project.Approved = true
	req := projectimage.Request{Agent: "shell", Base: b.base, Project: &project}
	_, err = projectimage.Ref(req)
	return req, err
}

// imageBuilds measures a project's layer beside buildx.
func (b *bench) imageBuilds() error {
	if err := b.withBuildx(); err != nil {
		return err
	}
	folder := filepath.Join(b.repo, ".agent-loop")
	defer func() { _ = os.RemoveAll(folder) }()
	if err := writeFiles(folder, map[string]string{"Dockerfile.sandbox": packageLayer}); err != nil {
		return err
	}
	if err := b.makePackage(filepath.Join(folder, "package.deb")); err != nil {
		return err
	}
	agent, err := projectimage.Ref(projectimage.Request{Agent: "shell", Base: b.base})
	if err != nil {
		return err
	}
	stamp := []string{"sh", "-c", "date +%s.%N >.agent-loop/stamp && docker ralph trust --force"}
	ours := b.ralph("image", "build")
	if _, err := b.timeAll([][]string{stamp, ours}); err != nil { // the agent's image, too
		return err
	}
	defer b.removeBuilt()
	return b.compare("layer of a .deb, nothing cached", "buildx", imageBuildGoal, builds,
		[][]string{ours},
		[][]string{{
			"docker", "buildx", "build", "--builder", "default", "--build-arg", "BASE_IMAGE=" + agent, "--tag", peerImage,
			"--file", ".agent-loop/Dockerfile.sandbox", ".agent-loop",
		}}, stamp)
}

const peerImage = "ralph-bench-peer:latest"

// withBuildx puts buildx beside our own plugin.
func (b *bench) withBuildx() error {
	buildx := os.Getenv("RALPH_BENCH_BUILDX")
	if buildx == "" {
		return errors.New("RALPH_BENCH_BUILDX names no buildx to measure beside: \"make bench\" sets it")
	}
	err := os.Symlink(buildx, filepath.Join(b.dir, "docker", "cli-plugins", "docker-buildx"))
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// makePackage makes a Debian package with one large file.
func (b *bench) makePackage(path string) error {
	tree := filepath.Join(b.dir, "package")
	control := "Package: ralph-bench\nVersion: 1\nArchitecture: all\nMaintainer: bench <bench@example.com>\nDescription: something to install\n"
	err := writeFiles(tree, map[string]string{"DEBIAN/control": control, "opt/bench": strings.Repeat("0123456789abcde\n", packageSize/16)})
	if err != nil {
		return err
	}
	_, err = b.time("dpkg-deb", "--root-owner-group", "--build", tree, path)
	return err
}

// removeBuilt removes the layers that were built.
func (b *bench) removeBuilt() {
	project := "io.github.docker-ralph.project=" + filepath.Base(b.repo)
	ids, err := b.output("images", "--quiet", "--filter", "label="+project)
	if err == nil {
		_, _ = b.timeAll([][]string{append([]string{"docker", "rmi", "-f", peerImage}, strings.Fields(ids)...)})
	}
}

func writeFiles(folder string, files map[string]string) error {
	for name, content := range files {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			return err
		}
	}
	return nil
}
