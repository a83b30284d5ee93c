// Package archive writes a git directory as a tar archive.
package archive

import (
	"archive/tar"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Archive writes the files of a git directory.
type Archive struct {
	w        *tar.Writer
	folder   string
	uid, gid int
	err      error
}

// Dir adds a directory.
func (a *Archive) Dir(name string) { a.entry(name, tar.TypeDir, 0o755, nil) }

// File adds a file.
func (a *Archive) File(name string, content []byte) { a.entry(name, tar.TypeReg, 0o644, content) }

func (a *Archive) entry(name string, kind byte, mode int64, content []byte) {
	if a.err != nil {
		return
	}
	a.err = a.w.WriteHeader(a.header(a.folder+"/"+name, kind, mode, int64(len(content))))
	if a.err == nil {
		_, a.err = a.w.Write(content)
	}
}

// Beside writes a directory beside the git directory.
func (a *Archive) Beside(name string) {
	if a.err == nil {
		a.err = a.w.WriteHeader(a.header(name+"/", tar.TypeDir, 0o755, 0))
	}
}

func (a *Archive) header(name string, kind byte, mode, size int64) *tar.Header {
	return &tar.Header{Name: name, Typeflag: kind, Mode: mode, Size: size, Uid: a.uid, Gid: a.gid, ModTime: time.Now(), Format: tar.FormatPAX}
}

// Close ends the archive, and returns the first error.
func (a *Archive) Close() error {
	if a.err == nil {
		a.err = a.w.Close()
	}
	return a.err
}

// New returns an archive of a directory, whose files belong to a user ("UID:GID").
func New(w io.Writer, folder, user string) (*Archive, error) {
	a := &Archive{w: tar.NewWriter(w), folder: folder}
	var err error
	a.uid, a.gid, err = parseUser(user)
	return a, err
}

func parseUser(user string) (uid, gid int, err error) {
	u, g, _ := strings.Cut(user, ":")
	if uid, err = strconv.Atoi(u); err == nil {
		gid, err = strconv.Atoi(g)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("parsing the sandbox's user %q: %w", user, err)
	}
	return uid, gid, nil
}
