package projectimage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lazyregexp"
)

// The files of a project that describe its layer, in the root of the main worktree.
const (
	projectFolder     = ".agent-loop"
	sandboxDockerfile = "Dockerfile.sandbox" // wins over dependencies
	dependenciesFile  = "dependencies"
)

// maxFile is the size of the largest file that is read, in bytes.
const maxFile = 1 << 20

// Project is a project's own layer on an agent's image.
type Project struct {
	Root       string    // the main worktree, whose name is in the tag
	File       string    // that describes the layer
	Dockerfile []byte    // read or generated
	Packages   []Package // of a dependencies file
	Notes      []string  // warnings about the files
	// Approved says that the user has approved [Project.Digest]. Without it, no
	// Dockerfile of the repository is built or used.
	Approved bool
	// NoNetwork builds the layer without a network.
	NoNetwork bool

	ignored []string       // .dockerignore patterns
	files   []*contextPart // the build context; empty with a dependencies file
}

// own reports whether the repository has a Dockerfile.
func (p *Project) own() bool { return len(p.Packages) == 0 }

// Digest identifies what a build of the repository's Dockerfile runs: the Dockerfile, its
// context, and whether it has a network. It is empty for a list of packages.
func (p *Project) Digest() string {
	if !p.own() {
		return ""
	}
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "docker-ralph build 2\n%x\noffline %t\n%s\n", sha256.Sum256(p.Dockerfile), p.NoNetwork, p.contextDigest())
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// Files returns a short hash of each file that [Project.Digest] covers, to find those that
// have changed.
func (p *Project) Files() map[string]string {
	if !p.own() {
		return nil
	}
	short := func(write func(io.Writer)) string {
		sum := sha256.New()
		write(sum)
		return hex.EncodeToString(sum.Sum(nil))[:16]
	}
	files := map[string]string{}
	for _, part := range p.files {
		if !part.mode.IsDir() {
			files[part.path] = short(part.write)
		}
	}
	// It is used even if .dockerignore excludes it, and may be a link.
	files[sandboxDockerfile] = short(func(w io.Writer) { _, _ = w.Write(p.Dockerfile) })
	return files
}

// contextDigest is the digest of .agent-loop without ignored files, for the approval and the
// tag. It is empty for a Dockerfile alone, which is in both anyway.
func (p *Project) contextDigest() string {
	if len(p.files) == 0 || len(p.files) == 1 && p.files[0].path == sandboxDockerfile {
		return ""
	}
	sum := sha256.New()
	for _, part := range p.files {
		part.write(sum)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// FindProject returns the layer of the project in the root of a main worktree, and false if
// there is none. The repository is not trusted: only regular files are read, and nothing
// outside of .agent-loop. Errors about files are joined [FileError]s.
func FindProject(ctx context.Context, mainRoot string) (Project, bool, error) {
	folder, err := openProjectFolder(mainRoot)
	if folder == nil || err != nil {
		return Project{}, false, err
	}
	defer func() { _ = folder.Close() }()
	dockerfile, custom, err := readProjectFile(folder, mainRoot, sandboxDockerfile)
	if err != nil {
		return Project{}, false, err
	}
	if custom {
		p := Project{Root: mainRoot, File: projectPath(mainRoot, sandboxDockerfile), Dockerfile: dockerfile}
		if _, err := folder.Lstat(dependenciesFile); err == nil {
			p.Notes = append(p.Notes, fmt.Sprintf("%s is ignored: there is a %s", projectPath(mainRoot, dependenciesFile), sandboxDockerfile))
		}
		return p, true, p.complete(ctx, folder)
	}
	text, _, err := readProjectFile(folder, mainRoot, dependenciesFile)
	if err != nil {
		return Project{}, false, err
	}
	p := Project{Root: mainRoot, File: projectPath(mainRoot, dependenciesFile)}
	if p.Packages, err = parseDependencies(p.File, text); err != nil {
		return Project{}, false, err
	}
	p.Dockerfile = generateDockerfile(p.Packages)
	return p, len(p.Packages) > 0, nil
}

// baseArgument is the build argument with the agent image.
const baseArgument = "BASE_IMAGE"

// userInstruction matches USER instructions.
var userInstruction = lazyregexp.New(`(?im)^[ \t]*USER[ \t]+([^\s:]+)`)

// complete checks the project's Dockerfile for common errors, and reads its context.
func (p *Project) complete(ctx context.Context, folder *os.Root) (err error) {
	if !bytes.Contains(p.Dockerfile, []byte(baseArgument)) {
		return hint.Wrap(refuse(p.File, "not based on the agent image"),
			"start it with ARG BASE_IMAGE and FROM ${BASE_IMAGE}, or use an image unchanged with --image IMAGE")
	}
	if users := userInstruction().FindAllSubmatch(p.Dockerfile, -1); len(users) > 0 {
		if last := string(users[len(users)-1][1]); last != "agent" && last != "1000" {
			p.Notes = append(p.Notes, fmt.Sprintf("%s ends with USER %s: end it with USER agent", p.File, last))
		}
	}
	if p.ignored, err = readIgnored(folder, p.Root); err != nil {
		return err
	}
	if p.files, err = readContext(ctx, folder, p.ignored, maxContext, maxContextFiles); err != nil {
		return fmt.Errorf("reading the build context of %s: %w", p.File, err)
	}
	return nil
}

func projectPath(mainRoot, name string) string {
	return filepath.Join(mainRoot, projectFolder, name)
}

// openProjectFolder opens .agent-loop, and returns nil if there is none. With a link, the
// repository could choose any directory of the user.
func openProjectFolder(mainRoot string) (*os.Root, error) {
	path := filepath.Join(mainRoot, projectFolder)
	before, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", path, err)
	case !before.IsDir():
		return nil, refuse(path, "is "+kind(before.Mode())+", not a directory")
	}
	folder, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if after, err := folder.Stat("."); err != nil || !os.SameFile(before, after) {
		_ = folder.Close()
		return nil, refuse(path, "replaced while it was opened")
	}
	return folder, nil
}

// readProjectFile returns the content of a file in the project's folder, and false if there
// is none. A link to another file in the folder is followed.
func readProjectFile(folder *os.Root, mainRoot, name string) (_ []byte, found bool, _ error) {
	path := projectPath(mainRoot, name)
	info, err := folder.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("reading %s: %w", path, err)
	}
	link := info.Mode()&fs.ModeSymlink != 0
	if !link && !info.Mode().IsRegular() {
		return nil, false, refuse(path, "is "+kind(info.Mode())+", not a regular file")
	}
	// O_NONBLOCK, because opening a named pipe blocks.
	f, err := folder.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case err != nil && link:
		return nil, false, refuse(path, "symbolic link does not lead to a file in "+projectFolder)
	case err != nil:
		return nil, false, fmt.Errorf("reading %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	if info, err = f.Stat(); err != nil {
		return nil, false, fmt.Errorf("reading %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, false, refuse(path, "is "+kind(info.Mode())+", not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("reading %s: %w", path, err)
	case len(text) > maxFile:
		return nil, false, refuse(path, fmt.Sprintf("larger than %d KiB", maxFile>>10))
	}
	return text, true, nil
}

func refuse(path, reason string) error { return &FileError{Path: path, Message: reason} }

// kind names a type of file.
func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	default:
		return "a file"
	}
}
