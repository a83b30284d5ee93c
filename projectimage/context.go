package projectimage

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/docker/go-units"
	"github.com/moby/patternmatcher/ignorefile"
	"github.com/tonistiigi/fsutil"
	fstypes "github.com/tonistiigi/fsutil/types"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// What a build context may have. All of it is read by every command, and an agent can add to it.
const (
	maxContext      = 512 << 20 // bytes
	maxContextFiles = 20_000    // with directories and links
	maxIgnored      = 1_000     // patterns, which are compared with every file
)

// readIgnored returns the patterns of files that are not in the context. As in docker build,
// Dockerfile.sandbox.dockerignore wins over .dockerignore.
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
			return nil, refuse(projectPath(mainRoot, name), termsafe.Visible(err.Error()))
		}
		if len(patterns) > maxIgnored {
			return nil, refuse(projectPath(mainRoot, name), fmt.Sprintf("more than %d patterns", maxIgnored))
		}
		return patterns, nil
	}
	return nil, nil
}

// contextFiles returns the build context: the files, directories and links of the folder
// that are not ignored. Links are not followed.
func contextFiles(folder *os.Root, ignored []string) (fsutil.FS, error) {
	return fsutil.NewFilterFS(fsutil.NewRootFS(fsutil.NewRoot(folder)), &fsutil.FilterOpt{
		ExcludePatterns: ignored,
		Map: func(_ string, stat *fstypes.Stat) fsutil.MapResult {
			// Their owners do not exist in the image.
			stat.Uid, stat.Gid = 0, 0
			mode := fs.FileMode(stat.Mode)
			if mode.IsRegular() || mode.IsDir() || mode&fs.ModeSymlink != 0 {
				return fsutil.MapResultKeep
			}
			return fsutil.MapResultExclude
		},
	})
}

// readContext returns the paths, modes and hashes of a context's files. Times and owners are
// ignored, as by BuildKit. It fails at the first file that exceeds a budget of bytes or of files.
func readContext(ctx context.Context, folder *os.Root, ignored []string, size int64, count int) ([]*contextPart, error) {
	files, err := contextFiles(folder, ignored)
	if err != nil {
		return nil, err
	}
	var parts []*contextPart
	read := int64(0)
	err = files.Walk(ctx, "", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		part, err := newContextPart(path, entry)
		if err != nil {
			return err
		}
		if len(parts) == count {
			return largeContext(part.path, fmt.Sprintf("%d files", count))
		}
		parts = append(parts, part)
		if !part.mode.IsRegular() {
			return nil
		}
		left := size - read
		if part.size <= left {
			part.size, part.sum, err = hashFile(ctx, folder, path, left)
		}
		if part.size > left {
			return largeContext(part.path, units.BytesSize(float64(size)))
		}
		read += part.size
		return err
	})
	return parts, err
}

func largeContext(path, budget string) error {
	return hint.Wrap(fmt.Errorf("more than %s, with %s", budget, termsafe.Visible(path)),
		"exclude what the build does not need in %s", projectFolder+"/.dockerignore")
}

// contextPart is a file, directory or link in a context.
type contextPart struct {
	path string // with slashes
	mode fs.FileMode
	link string // target of a symbolic link
	same string // an earlier file that this one is a hard link to; depends on the walk
	size int64  // of a file
	sum  []byte // of a file's content
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
	part := &contextPart{path: filepath.ToSlash(path), mode: fs.FileMode(stat.Mode)}
	if part.mode.IsRegular() {
		part.same, part.size = filepath.ToSlash(stat.Linkname), stat.Size
	} else {
		part.link = stat.Linkname
	}
	return part, nil
}

// write is unambiguous: different files are written differently.
func (p *contextPart) write(to io.Writer) {
	_, _ = fmt.Fprintf(to, "%q %s %q\n", p.path, p.mode, p.link)
	if p.mode.IsRegular() {
		_, _ = fmt.Fprintf(to, "%x\n", p.sum)
	}
}

// verifiedFS is a context that must not have changed since it was read: what was approved is
// built, even if an agent changes the files meanwhile.
type verifiedFS struct {
	fsutil.FS
	parts map[string]*contextPart
}

func newVerifiedFS(files fsutil.FS, parts []*contextPart) verifiedFS {
	v := verifiedFS{files, make(map[string]*contextPart, len(parts))}
	for _, part := range parts {
		v.parts[part.path] = part
	}
	return v
}

// changedError says that a file has changed since the context was read.
type changedError struct{ path string }

func (e *changedError) Error() string {
	return fmt.Sprintf("%s changed during the build", filepath.Join(projectFolder, filepath.FromSlash(e.path)))
}

// Walk implements [fsutil.FS].
func (v verifiedFS) Walk(ctx context.Context, target string, visit fs.WalkDirFunc) error {
	return v.FS.Walk(ctx, target, func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = v.check(path, entry)
		}
		return visit(path, entry, err)
	})
}

func (v verifiedFS) check(path string, entry fs.DirEntry) error {
	now, err := newContextPart(path, entry)
	if err != nil {
		return err
	}
	was, known := v.parts[now.path]
	if !known || was.mode != now.mode || was.link != now.link {
		return &changedError{now.path}
	}
	if now.same == "" {
		return nil
	}
	// BuildKit uses the other file's content for this one.
	if same, known := v.parts[now.same]; !known || !bytes.Equal(same.sum, was.sum) {
		return &changedError{now.path}
	}
	return nil
}

// Open implements [fsutil.FS].
func (v verifiedFS) Open(path string) (io.ReadCloser, error) {
	part, known := v.parts[filepath.ToSlash(path)]
	if !known {
		return nil, &changedError{filepath.ToSlash(path)}
	}
	f, err := v.FS.Open(path)
	if err != nil {
		return nil, err
	}
	return &verifiedFile{ReadCloser: f, part: part, sum: sha256.New()}, nil
}

// verifiedFile fails at the end of a file with another content.
type verifiedFile struct {
	io.ReadCloser
	part *contextPart
	read int64
	sum  hash.Hash
}

func (f *verifiedFile) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	_, _ = f.sum.Write(p[:n])
	if f.read += int64(n); f.read > f.part.size {
		return 0, &changedError{f.part.path}
	}
	if errors.Is(err, io.EOF) && !bytes.Equal(f.sum.Sum(nil), f.part.sum) {
		err = &changedError{f.part.path}
	}
	return n, err
}

// hashFile returns the size and the SHA-256 of a file, which may have become a named pipe since, or
// grown: it reads one byte more than limit at most.
func hashFile(ctx context.Context, folder *os.Root, path string, limit int64) (int64, []byte, error) {
	f, err := folder.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return 0, nil, cmp.Or(err, fmt.Errorf("%q is not a regular file", path))
	}
	sum := sha256.New()
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	size, err := io.Copy(sum, io.LimitReader(f, limit+1))
	return size, sum.Sum(nil), canceledOr(ctx, err)
}
