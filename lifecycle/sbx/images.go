package sbx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/gofrs/flock"
	"github.com/moby/moby/client"

	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// Engine is the part of the Engine API that images are taken with.
type Engine interface {
	ImageInspect(ctx context.Context, image string, options ...client.ImageInspectOption) (client.ImageInspectResult, error)
	ImageSave(ctx context.Context, images []string, options ...client.ImageSaveOption) (client.ImageSaveResult, error)
	ImageTag(ctx context.Context, options client.ImageTagOptions) (client.ImageTagResult, error)
}

// Images takes images from a Docker Engine to the store of sbx, each once.
type Images struct {
	Engine Engine
	// LockDir is where the lock is that keeps two dispatches from loading one
	// image twice.
	LockDir string
	// TempDir is where an image is kept meanwhile.
	TempDir string
	Report  func(message string)
}

// loadLimit is how long sbx may take to read an image of some gigabytes.
const loadLimit = 15 * time.Minute

// repository is what images are called in the store of sbx. The tag is their ID
// on the engine, so that a tag never means two images; their ID in the store
// can be another, because engines with the containerd store count differently.
const repository = "docker-ralph/sandbox"

// load makes sure that sbx has an image of the engine, and returns what it is
// called there. found is false when the engine does not have it.
func (i *Images) load(ctx context.Context, sbx microvm.Client, image string) (ref string, found bool, err error) {
	res, err := i.Engine.ImageInspect(ctx, image)
	if errdefs.IsNotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("looking for the image %q: %w", image, err)
	}
	id := strings.TrimPrefix(res.ID, "sha256:")
	if len(id) < 12 {
		return "", false, fmt.Errorf("the engine says that the image %q is %q", image, res.ID)
	}
	id = id[:12]
	ref = repository + ":" + id
	unlock, err := i.lock(ctx)
	if err != nil {
		return "", false, err
	}
	defer unlock()
	has, err := loaded(ctx, sbx, id)
	if err != nil || has {
		return ref, true, err
	}
	i.Report("Giving the image " + image + " to sbx (once)")
	if _, err := i.Engine.ImageTag(ctx, client.ImageTagOptions{Source: res.ID, Target: ref}); err != nil {
		return "", false, fmt.Errorf("naming the image %q for sbx: %w", image, err)
	}
	if err := i.transfer(ctx, sbx, ref); err != nil {
		return "", false, fmt.Errorf("giving the image %q to sbx: %w", image, err)
	}
	return ref, true, nil
}

func (i *Images) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(i.LockDir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder for locks: %w", err)
	}
	l := flock.New(filepath.Join(i.LockDir, "sbx-images.lock"))
	if _, err := l.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		return nil, fmt.Errorf("locking %s: %w", l.Path(), err)
	}
	return func() { _ = l.Close() }, nil
}

// transfer goes by a file, because "sbx template load" takes nothing else.
func (i *Images) transfer(ctx context.Context, sbx microvm.Client, ref string) (err error) {
	file, err := os.CreateTemp(i.TempDir, "docker-ralph-*.tar")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	saved, err := i.Engine.ImageSave(ctx, []string{ref})
	if err != nil {
		return errors.Join(err, file.Close())
	}
	_, err = io.Copy(file, saved)
	if err := errors.Join(err, saved.Close(), file.Close()); err != nil {
		return err
	}
	_, err = sbx.Output(ctx, loadLimit, "template", "load", file.Name())
	return err
}

// loaded tells whether sbx has the image with that ID.
func loaded(ctx context.Context, sbx microvm.Client, id string) (bool, error) {
	out, err := sbx.Output(ctx, time.Minute, "template", "ls", "--json")
	if err != nil {
		return false, fmt.Errorf("listing the images of sbx: %w", err)
	}
	return hasImage(out, id)
}

// hasImage reads the answer of "sbx template ls --json".
func hasImage(output []byte, id string) (bool, error) {
	start := strings.IndexByte(string(output), '{')
	if start < 0 {
		return false, fmt.Errorf("listing the images of sbx: it answered %.200q", output)
	}
	var list struct {
		Images []struct {
			Repository string `json:"repository"`
			Tag        string `json:"tag"`
		} `json:"images"`
	}
	if err := json.NewDecoder(strings.NewReader(string(output[start:]))).Decode(&list); err != nil {
		return false, fmt.Errorf("listing the images of sbx: %w", err)
	}
	for _, image := range list.Images {
		if image.Tag == id && (image.Repository == repository || strings.HasSuffix(image.Repository, "/"+repository)) {
			return true, nil
		}
	}
	return false, nil
}
