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

	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// buildSpec is one image to build: a Dockerfile on ARG BASE_IMAGE.
type buildSpec struct {
	tag        string
	base       string
	platform   string // empty for the engine's own
	dockerfile []byte
	file       string            // what the Dockerfile is called; empty for Dockerfile
	context    fsutil.FS         // files for COPY; nil for none
	ignored    []string          // patterns of files that are not in context, as .dockerignore has them
	project    *Project          // whose layer it is; nil for an agent's image
	labels     map[string]string // must depend on nothing but the tag and the base
}

// filename is the Dockerfile's name for BuildKit.
func (s buildSpec) filename() string {
	if s.file == "" {
		return "Dockerfile"
	}
	return s.file
}

// build builds spec with the engine's BuildKit and shows it live. It returns
// when both the build and the display have ended.
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
		open, teller := openSteps{}, teller{mode: b.Progress.Mode}
		for status := range solved {
			log.record(status)
			open.record(status)
			shown <- teller.tell(status)
		}
		if <-succeeded && len(open) > 0 && b.Progress.Mode != ModeRawJSON {
			shown <- open.end(time.Now())
		}
		return nil
	})
	group.Go(func() error {
		// The display must outlive a cancelled ctx, or nobody would read what the
		// solve still sends.
		_, err := display.UpdateFrom(context.WithoutCancel(ctx), shown)
		return err
	})
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("building image %q: %w", spec.tag, ctx.Err())
		}
		return newBuildError(spec, err, &log)
	}
	return nil
}

// solveOptions describes the build to BuildKit. There are no attestations: they
// would give a cached build a new digest every time. There are no entitlements
// either: no step gets the host's network, or more rights than others.
func (b *Builder) solveOptions(spec buildSpec, noCache bool) (buildkit.SolveOpt, error) {
	secrets, err := secretsprovider.NewStore(b.Secrets)
	if err != nil {
		return buildkit.SolveOpt{}, err
	}
	attrs := map[string]string{
		"filename":                  spec.filename(),
		"image-resolve-mode":        "local",
		"build-arg:" + baseArgument: spec.base,
		// The base is always given: that it has no default is no fault.
		"build-arg:BUILDKIT_DOCKERFILE_CHECK": "skip=InvalidDefaultArgInFrom",
	}
	if spec.platform != "" {
		attrs["platform"] = spec.platform
	}
	if spec.project != nil && spec.project.NoNetwork {
		attrs["force-network-mode"] = "none"
		// With a command line, BuildKit takes its own frontend: one that a syntax
		// directive names would run with a network.
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
	// BuildKit must not look for another list: this one was chosen already.
	ignored := []byte("# chosen by docker ralph\n" + strings.Join(spec.ignored, "\n") + "\n")
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

// addProxies gives the steps the proxies of Docker's configuration. Those that a
// repository chooses get none with a password: they could send it away.
func (b *Builder) addProxies(spec buildSpec, attrs map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(b.ProxyArgs)) {
		value := b.ProxyArgs[name]
		switch {
		case value == nil:
		case spec.project != nil && spec.project.own() && strings.Contains(*value, "@"):
			b.Progress.notice("Warning: %s in Docker's configuration has a password, so the steps of %s do not get it", name, termsafe.Visible(spec.project.File))
		default:
			attrs["build-arg:"+name] = *value
		}
	}
}

// sentFile describes a file that is on no disk. BuildKit keeps what it was sent by
// an earlier build, of any repository, and takes a file of the same name, size and
// time for the same. So the time stands for what is in it: a moment before 2007.
func sentFile(content []byte) *fstypes.Stat {
	sum := sha256.Sum256(content)
	return &fstypes.Stat{Mode: 0o644, ModTime: int64(binary.BigEndian.Uint64(sum[:8]) >> 4)} // in nanoseconds
}

// exactFS walks the named file alone: [staticfs.FS] goes by the prefix, which
// BuildKit refuses when one file's name begins with another's.
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

// buildAuth answers BuildKit's questions for registry credentials, for images
// that a Dockerfile names besides its base.
func (b *Builder) buildAuth() session.Attachable {
	auth := b.Auth
	if auth == nil {
		auth = func(context.Context, string, []string, authprovider.ExpireCachedAuthCheck) (types.AuthConfig, error) {
			return types.AuthConfig{}, nil
		}
	}
	return authprovider.NewDockerAuthProvider(authprovider.DockerAuthProviderConfig{AuthConfigProvider: auth})
}
