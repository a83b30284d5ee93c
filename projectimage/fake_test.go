package projectimage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"
)

// fakeEngine knows the images in its map and writes down what it is asked.
type fakeEngine struct {
	mu     sync.Mutex
	images map[string]string // reference → ID
	labels map[string]string // of every image
	calls  []string

	inspectErr error
	pull       func(ref string, options client.ImagePullOptions) (string, error) // returns the message stream
	files      map[string]container.PathStat                                     // what is in every image; nil for what a sandbox needs
	hijack     func(ctx context.Context) (net.Conn, error)
	dial       func(ctx context.Context) (net.Conn, error)
	host       string

	summaries  []image.Summary
	containers []container.Summary
	removeErr  error

	Engine // nothing else is asked of it
}

func (f *fakeEngine) called(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

func (f *fakeEngine) ImageInspect(ctx context.Context, ref string, _ ...client.ImageInspectOption) (client.ImageInspectResult, error) {
	f.called("inspect %s", ref)
	if err := ctx.Err(); err != nil {
		return client.ImageInspectResult{}, err
	}
	if f.inspectErr != nil {
		return client.ImageInspectResult{}, f.inspectErr
	}
	id, ok := f.images[ref]
	if !ok {
		return client.ImageInspectResult{}, fmt.Errorf("no such image %s: %w", ref, errdefs.ErrNotFound)
	}
	var result client.ImageInspectResult
	answer, err := json.Marshal(map[string]any{"Id": id, "Config": map[string]any{"Labels": f.labels}})
	if err == nil {
		err = json.Unmarshal(answer, &result.InspectResponse)
	}
	return result, err
}

func (f *fakeEngine) ImagePull(_ context.Context, ref string, options client.ImagePullOptions) (client.ImagePullResponse, error) {
	f.called("pull %s", ref)
	if f.pull == nil {
		return nil, fmt.Errorf("pull access denied for %s: %w", ref, errdefs.ErrNotFound)
	}
	messages, err := f.pull(ref, options)
	if err != nil {
		return nil, err
	}
	return fakePull{bytes.NewBufferString(messages)}, nil
}

// suitable is what a sandbox needs of an image.
func suitable() map[string]container.PathStat {
	files := map[string]container.PathStat{}
	for name, mode := range map[string]fs.FileMode{"/bin/sh": 0o755, "/usr/bin/git": 0o755, "/etc/passwd": 0o644, "/etc/group": 0o644} {
		files[name] = container.PathStat{Mode: mode}
	}
	return files
}

func (f *fakeEngine) ContainerCreate(_ context.Context, options client.ContainerCreateOptions) (client.ContainerCreateResult, error) {
	f.called("create %s", options.Config.Image)
	return client.ContainerCreateResult{ID: "box"}, nil
}

func (f *fakeEngine) ContainerStatPath(_ context.Context, id string, options client.ContainerStatPathOptions) (client.ContainerStatPathResult, error) {
	files := f.files
	if files == nil {
		files = suitable()
	}
	stat, ok := files[options.Path]
	if !ok || id != "box" {
		return client.ContainerStatPathResult{}, fmt.Errorf("no such file %s: %w", options.Path, errdefs.ErrNotFound)
	}
	return client.ContainerStatPathResult{Stat: stat}, nil
}

func (f *fakeEngine) ContainerRemove(_ context.Context, id string, _ client.ContainerRemoveOptions) (client.ContainerRemoveResult, error) {
	f.called("remove %s", id)
	return client.ContainerRemoveResult{}, nil
}

func (f *fakeEngine) ImageList(ctx context.Context, _ client.ImageListOptions) (client.ImageListResult, error) {
	return client.ImageListResult{Items: f.summaries}, ctx.Err()
}

func (f *fakeEngine) ContainerList(ctx context.Context, _ client.ContainerListOptions) (client.ContainerListResult, error) {
	return client.ContainerListResult{Items: f.containers}, ctx.Err()
}

func (f *fakeEngine) ImageRemove(_ context.Context, ref string, options client.ImageRemoveOptions) (client.ImageRemoveResult, error) {
	f.called("rmi %s", ref)
	if options.Force {
		return client.ImageRemoveResult{}, errors.New("that would take an image from a container")
	}
	if f.removeErr == nil {
		delete(f.images, ref)
	}
	return client.ImageRemoveResult{}, f.removeErr
}

// DiskUsage says that every name of an image takes 10 bytes.
func (f *fakeEngine) DiskUsage(context.Context, client.DiskUsageOptions) (client.DiskUsageResult, error) {
	return client.DiskUsageResult{Images: client.ImagesDiskUsage{TotalSize: 10 * int64(1+len(f.images))}}, nil
}

func (f *fakeEngine) DialHijack(ctx context.Context, url, proto string, _ map[string][]string) (net.Conn, error) {
	f.called("hijack %s %s", url, proto)
	if f.hijack == nil {
		return nil, errors.New("unable to upgrade to h2c, received 404")
	}
	return f.hijack(ctx)
}

func (f *fakeEngine) Dialer() func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		f.called("dial")
		if f.dial == nil {
			return nil, errors.New("connection refused")
		}
		return f.dial(ctx)
	}
}

func (f *fakeEngine) DaemonHost() string { return f.host }

type fakePull struct{ *bytes.Buffer }

func (fakePull) Close() error { return nil }

func (p fakePull) Wait(context.Context) error { _, err := io.Copy(io.Discard, p); return err }

func (fakePull) JSONMessages(context.Context) iter.Seq2[jsonstream.Message, error] { return nil }

// newFake returns a builder on a fake engine, and what it shows.
func newFake(t *testing.T, images map[string]string) (*Builder, *fakeEngine, *bytes.Buffer) {
	t.Helper()
	engine, out := &fakeEngine{images: images, host: "unix:///test.sock"}, &bytes.Buffer{}
	return &Builder{Engine: engine, Progress: Progress{Mode: ModePlain, Out: out}, LockDir: t.TempDir()}, engine, out
}
