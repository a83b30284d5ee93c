package projectimage

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"

	"github.com/moby/patternmatcher/ignorefile"
	"github.com/tonistiigi/fsutil"
	fstypes "github.com/tonistiigi/fsutil/types"
	"golang.org/x/sync/errgroup"
)

// readIgnored returns the patterns of the files that stay out of the context.
// As in docker build, a file for this Dockerfile wins over the folder's.
func readIgnored(folder *os.Root, mainRoot string) ([]string, error) {
	for _, name := range []string{sandboxDockerfile + ".dockerignore", ".dockerignore"} {
		text, found, err := readProjectFile(folder, mainRoot, name)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		patterns, err := ignorefile.ReadAll(bytes.NewReader(text))
		if err == nil {
			_, err = fsutil.NewFilterFS(nil, &fsutil.FilterOpt{ExcludePatterns: patterns})
		}
		if err != nil {
			return nil, refuse(projectPath(mainRoot, name), visible(err.Error()))
		}
		return patterns, nil
	}
	return nil, nil
}

// contextFiles are the files that a Dockerfile may copy: those of the folder
// without the ignored ones, and without what is neither file, folder nor link.
// Links are passed on as links; nothing outside the folder can be reached. With
// sources it is only what is there or below, and what links there lead to.
func contextFiles(folder *os.Root, ignored, sources []string) (fsutil.FS, error) {
	if slices.Contains(sources, wholeContext) {
		sources = nil
	}
	return fsutil.NewFilterFS(fsutil.NewRootFS(fsutil.NewRoot(folder)), &fsutil.FilterOpt{
		ExcludePatterns: ignored,
		FollowPaths:     sources,
		Map: func(_ string, stat *fstypes.Stat) fsutil.MapResult {
			// Whoever owns them here is nobody in an image.
			stat.Uid, stat.Gid = 0, 0
			mode := fs.FileMode(stat.Mode)
			if mode.IsRegular() || mode.IsDir() || mode&fs.ModeSymlink != 0 {
				return fsutil.MapResultKeep
			}
			return fsutil.MapResultExclude
		},
	})
}

// contextDigest returns the SHA-256 over the paths, modes and contents of the
// files of a context that are taken, as hex digits. Times and owners do not
// count, as they do not for BuildKit.
func contextDigest(ctx context.Context, folder *os.Root, ignored, sources []string) (string, error) {
	files, err := contextFiles(folder, ignored, sources)
	if err != nil {
		return "", err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	buffers := sync.Pool{New: func() any { return new([64 << 10]byte) }}
	var parts []*contextPart
	err = files.Walk(ctx, "", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		part, err := newContextPart(path, entry)
		if err != nil {
			return err
		}
		parts = append(parts, part)
		if part.content {
			group.Go(func() (err error) {
				buffer := buffers.Get().(*[64 << 10]byte)
				defer buffers.Put(buffer)
				part.sum, err = hashFile(ctx, folder, path, buffer[:])
				return err
			})
		}
		return nil
	})
	// What went wrong with a file has ended the walk, and says more.
	if err := cmp.Or(group.Wait(), err); err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, part := range parts {
		part.write(sum)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// contextPart is a file, folder or link in a context.
type contextPart struct {
	head    string
	content bool // whether it has a content of its own
	sum     []byte
}

func newContextPart(path string, entry fs.DirEntry) (*contextPart, error) {
	info, err := entry.Info()
	if err != nil {
		return nil, err
	}
	stat, ok := info.Sys().(*fstypes.Stat)
	if !ok {
		return nil, fmt.Errorf("%q has no status", path)
	}
	mode := fs.FileMode(stat.Mode)
	return &contextPart{
		// Every part is quoted or of a fixed form, so that no two lists of files are written alike.
		head:    fmt.Sprintf("%q %s %q\n", filepath.ToSlash(path), mode, stat.Linkname),
		content: mode.IsRegular() && stat.Linkname == "",
	}, nil
}

func (p *contextPart) write(to io.Writer) {
	_, _ = io.WriteString(to, p.head)
	if p.content {
		_, _ = fmt.Fprintf(to, "%x\n", p.sum)
	}
}

// hashFile returns the SHA-256 of a file. Somebody may have put something else
// in its place that would keep a reader waiting.
func hashFile(ctx context.Context, folder *os.Root, path string, buffer []byte) ([]byte, error) {
	f, err := folder.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, fmt.Errorf("%q is no file any more", path))
	}
	sum := sha256.New()
	// Without this struct the file would bring a buffer of its own.
	_, err = io.CopyBuffer(sum, readUntil{ctx, f}, buffer)
	return sum.Sum(nil), err
}

// readUntil reads no more when its context has ended.
type readUntil struct {
	ctx  context.Context
	from io.Reader
}

func (r readUntil) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}
