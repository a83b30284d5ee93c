package projectimage

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docker/cli/cli/config/types"
	buildkit "github.com/moby/buildkit/client"
	"github.com/moby/buildkit/session"
	"github.com/moby/buildkit/session/auth/authprovider"
	"github.com/moby/buildkit/session/secrets/secretsprovider"
	"github.com/moby/buildkit/util/staticfs"
	"github.com/tonistiigi/fsutil"
	fstypes "github.com/tonistiigi/fsutil/types"
	"golang.org/x/sync/errgroup"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// buildSpec is one image to build: a Dockerfile on ARG BASE_IMAGE.
type buildSpec struct {
	tag        string
	base       string
	platform   string // empty for the engine's own
	dockerfile []byte
	file       string            // name of the Dockerfile; empty for Dockerfile
	context    fsutil.FS         // files for COPY; nil for none
	ignored    []string          // .dockerignore patterns of files that are not in context
	project    *Project          // of a layer; nil for an agent image
	labels     map[string]string // depend on the tag and the base only
}

// filename is the Dockerfile's name for BuildKit.
func (s buildSpec) filename() string {
	if s.file == "" {
		return "Dockerfile"
	}
	return s.file
}

// build builds spec with the engine's BuildKit, and displays the progress.
func (b *Builder) build(ctx context.Context, spec buildSpec, noCache bool) error {
	display, err := b.Progress.display()
	if err != nil {
		return err
	}
	options, err := b.solveOptions(spec, noCache)
	if err != nil {
		return fmt.Errorf("building image %q: %w", spec.tag, err)
	}
	c, err := b.connect(ctx)
	if err != nil {
		return fmt.Errorf("building image %q: %w", spec.tag, err)
	}
	defer func() { _ = c.Close() }()

	solved, shown := make(chan *buildkit.SolveStatus), make(chan *buildkit.SolveStatus)
	var log stepLog
	var group errgroup.Group
	succeeded := make(chan bool, 1)
	group.Go(func() error {
		_, err := c.Solve(ctx, nil, options, solved)
		succeeded <- err == nil
		return err
	})
	group.Go(func() error {
		defer close(shown)
		open, clean := openSteps{}, sanitizer{mode: b.Progress.Mode}
		for status := range solved {
			log.record(status)
			open.record(status)
			shown <- clean.sanitize(status)
		}
		if <-succeeded && len(open) > 0 && b.Progress.Mode != ModeRawJSON {
			shown <- open.complete(time.Now())
		}
		return nil
	})
	group.Go(func() error {
		// The display reads what a cancelled solve still sends.
		_, err := display.UpdateFrom(context.WithoutCancel(ctx), shown)
		return err
	})
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("building image %q: %w", spec.tag, ctx.Err())
		}
		written := log.failed()
		failure := newBuildError(spec, err, written)
		if remedy := remedy(spec, err, written); remedy != "" {
			return hint.Wrap(failure, "%s", remedy)
		}
		return failure
	}
	return nil
}

// solveOptions describes the build to BuildKit. Attestations would change the digest of a
// cached build. Without entitlements, no step gets the host's network or more privileges.
func (b *Builder) solveOptions(spec buildSpec, noCache bool) (buildkit.SolveOpt, error) {
	secrets, err := secretsprovider.NewStore(b.Secrets)
	if err != nil {
		return buildkit.SolveOpt{}, err
	}
	attrs := map[string]string{
		"filename":                  spec.filename(),
		"image-resolve-mode":        "local",
		"build-arg:" + baseArgument: spec.base,
		// The base is always set, so it needs no default.
		"build-arg:BUILDKIT_DOCKERFILE_CHECK": "skip=InvalidDefaultArgInFrom",
	}
	if spec.platform != "" {
		attrs["platform"] = spec.platform
	}
	if spec.project != nil && spec.project.NoNetwork {
		attrs["force-network-mode"] = "none"
		// Makes BuildKit ignore a syntax directive, whose frontend would have a network.
		attrs["cmdline"] = ""
	}
	b.addProxies(spec, attrs)
	for name, value := range spec.labels {
		attrs["label:"+name] = value
	}
	if noCache {
		attrs["no-cache"] = "" // empty: for every stage
	}
	dockerfile := exactFS{staticfs.NewFS()}
	dockerfile.Add(spec.filename(), sentFile(spec.dockerfile), spec.dockerfile)
	// Keeps BuildKit from searching for another list.
	ignored := []byte("# written by docker ralph\n" + strings.Join(spec.ignored, "\n") + "\n")
	dockerfile.Add(spec.filename()+".dockerignore", sentFile(ignored), ignored)
	buildContext := spec.context
	if buildContext == nil {
		buildContext = staticfs.NewFS()
	}
	return buildkit.SolveOpt{
		Frontend:      "dockerfile.v0",
		FrontendAttrs: attrs,
		LocalMounts:   map[string]fsutil.FS{"dockerfile": dockerfile, "context": buildContext},
		Exports:       []buildkit.ExportEntry{{Type: "moby", Attrs: map[string]string{"name": spec.tag}}},
		Session:       []session.Attachable{b.buildAuth(), secretsprovider.NewSecretProvider(secrets)},
	}, nil
}

// addProxies passes the proxies of Docker's configuration to the steps. Steps of a
// repository get none with a password, which they could send away.
func (b *Builder) addProxies(spec buildSpec, attrs map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(b.ProxyArgs)) {
		value := b.ProxyArgs[name]
		switch {
		case value == nil:
		case spec.project != nil && spec.project.own() && strings.Contains(*value, "@"):
			b.Progress.notice("Warning: %s in Docker's configuration contains a password and is not passed to the steps of %s", name, termsafe.Visible(spec.project.File))
		default:
			attrs["build-arg:"+name] = *value
		}
	}
}

// sentFile describes a file in memory. BuildKit reuses files of earlier builds, of any
// repository, that have the same name, size and time. So the time is derived from the
// content: a moment before 2007.
func sentFile(content []byte) *fstypes.Stat {
	sum := sha256.Sum256(content)
	return &fstypes.Stat{Mode: 0o644, ModTime: int64(binary.BigEndian.Uint64(sum[:8]) >> 4)} // in nanoseconds
}

// exactFS walks only the named file: [staticfs.FS] walks all with its prefix, which BuildKit
// rejects.
type exactFS struct{ *staticfs.FS }

// Walk implements [fsutil.FS].
func (e exactFS) Walk(ctx context.Context, target string, visit fs.WalkDirFunc) error {
	target = strings.TrimPrefix(target, "/")
	return e.FS.Walk(ctx, target, func(path string, entry fs.DirEntry, err error) error {
		if target != "" && path != target {
			return nil
		}
		return visit(path, entry, err)
	})
}

// buildAuth provides registry credentials for further images of a Dockerfile.
func (b *Builder) buildAuth() session.Attachable {
	auth := func(ctx context.Context, host string, scopes []string, check authprovider.ExpireCachedAuthCheck) (types.AuthConfig, error) {
		found, _, err := b.credentials(ctx, host, scopes, check)
		return found, err
	}
	return authprovider.NewDockerAuthProvider(authprovider.DockerAuthProviderConfig{AuthConfigProvider: auth})
}
