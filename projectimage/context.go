package projectimage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/moby/patternmatcher/ignorefile"
	"github.com/tonistiigi/fsutil"
	fstypes "github.com/tonistiigi/fsutil/types"
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
// files of a context that are taken, as hex digits. Times and owners do not count, as they do not
// for BuildKit.
func contextDigest(ctx context.Context, folder *os.Root, ignored, sources []string) (string, error) {
	files, err := contextFiles(folder, ignored, sources)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = files.Walk(ctx, "", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*fstypes.Stat)
		if !ok {
			return fmt.Errorf("%q has no status", path)
		}
		mode := fs.FileMode(stat.Mode)
		// Every part is quoted or of a fixed form, so that no two lists of files are written alike.
		fmt.Fprintf(sum, "%q %s %q\n", filepath.ToSlash(path), mode, stat.Linkname)
		if mode.IsRegular() && stat.Linkname == "" {
			return hashFile(ctx, sum, files, path)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// hashFile adds a file's own digest to sum.
func hashFile(ctx context.Context, sum io.Writer, files fsutil.FS, path string) error {
	f, err := files.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	own := sha256.New()
	if _, err := io.Copy(hashUntil{ctx, own}, f); err != nil {
		return err
	}
	fmt.Fprintf(sum, "%x\n", own.Sum(nil))
	return nil
}

// hashUntil is a hash that takes no more when its context has ended.
type hashUntil struct {
	ctx context.Context
	hash.Hash
}

func (h hashUntil) Write(p []byte) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err
	}
	return h.Hash.Write(p)
}
