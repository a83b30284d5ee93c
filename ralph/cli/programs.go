package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/ralph/layout"
)

// programs are the paths by which a session's programs call ralph back.
type programs struct {
	self      string // real path of this program
	task      string // a program P for which "P list" is "ralph task list"
	scriptDir string // where hooks and scripts look for lib/task
	binDir    string // goes first on PATH so that "ralph" is this program; or ""
	temp      string // what was made for it; or ""
	foreign   bool   // task is another program
}

// findPrograms uses what lies beside the program, and makes its own links in a
// private folder where there is nothing. Where somebody has put another
// program in the place of lib/task, as in the original's layout, that one
// keeps the backlog; not in a sandbox, where the layout is ours.
func findPrograms() (p programs, err error) {
	if p.self, err = realPath(); err != nil {
		return p, err
	}
	dir := filepath.Dir(p.self)
	for _, beside := range []string{filepath.Join(dir, "lib", "task"), filepath.Join(dir, "task")} {
		if same(beside, p.self) || layout.IsTask(beside) {
			p.task, p.scriptDir = beside, dir
			break
		}
	}
	if theirs := filepath.Join(dir, "lib", "task"); p.task == "" && os.Getenv(config.GuestEnv) == "" && runnable(theirs) {
		p.task, p.scriptDir, p.foreign = theirs, dir, true
	}
	onPath, err := exec.LookPath("ralph")
	reachable := err == nil && same(onPath, p.self)
	if p.task != "" && reachable {
		return p, nil
	}
	return p, p.makeLinks(reachable)
}

// realPath is where this program lies.
func realPath() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", fmt.Errorf("finding the program itself: %w", err)
	}
	return self, nil
}

// preflight checks what programs of the original need beside this one, by the
// name that it has in their layout: they read the database with the sqlite3
// program, and rely on ralph to say early that it is missing. This program
// itself has SQLite inside, and by any other name asks for nothing.
func preflight() error {
	self, err := realPath()
	if err != nil {
		return err
	}
	if filepath.Base(self) != layout.Program || os.Getenv(config.GuestEnv) != "" {
		return nil
	}
	if _, err := exec.LookPath("sqlite3"); err != nil {
		message := "sqlite3 is required but not installed."
		if runtime.GOOS == "linux" {
			message += "\n  Install via package manager: sudo apt install sqlite3  (or equivalent)"
		}
		return errors.New(message)
	}
	return nil
}

func (p *programs) makeLinks(reachable bool) error {
	temp, err := p.tempDir()
	if err != nil {
		return err
	}
	bin, lib := filepath.Join(temp, "bin"), filepath.Join(temp, "lib")
	err = errors.Join(os.Mkdir(bin, 0o700), os.Mkdir(lib, 0o700),
		os.Symlink(p.self, filepath.Join(bin, "ralph")),
		os.Symlink(p.self, filepath.Join(lib, "task")))
	if err != nil {
		p.remove()
		return fmt.Errorf("preparing the session: %w", err)
	}
	if p.task == "" {
		p.task, p.scriptDir = filepath.Join(lib, "task"), temp
	}
	if !reachable {
		p.binDir = bin
	}
	return nil
}

// tempDir is a private folder for the session.
func (p *programs) tempDir() (string, error) {
	if p.temp != "" {
		return p.temp, nil
	}
	temp, err := os.MkdirTemp("", "ralph-")
	if err != nil {
		return "", fmt.Errorf("making a temporary folder for the session: %w. Set TMPDIR to a folder that can be written", err)
	}
	p.temp = temp
	return temp, nil
}

func (p *programs) remove() {
	if p.temp != "" {
		_ = os.RemoveAll(p.temp)
	}
}

// same says whether two paths are the same program: one file, or a copy.
func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX != nil || errY != nil {
		return false
	}
	return os.SameFile(x, y) || x.Mode().IsRegular() && x.Size() == y.Size() && sameContent(a, b)
}

// sameContent compares piece by piece: a loop is to stay small.
func sameContent(a, b string) bool {
	x, errX := os.Open(a)
	y, errY := os.Open(b)
	defer func() { _, _ = x.Close(), y.Close() }() // an error, where one is nil
	if errX != nil || errY != nil {
		return false
	}
	pieceX, pieceY := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errX := io.ReadFull(x, pieceX)
		m, errY := io.ReadFull(y, pieceY)
		if !bytes.Equal(pieceX[:n], pieceY[:m]) {
			return false
		}
		if errX != nil || errY != nil {
			return ended(errX) && ended(errY)
		}
	}
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

func runnable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
