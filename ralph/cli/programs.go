package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/config"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/compat"
)

// programs are the paths by which a session's programs run ralph.
type programs struct {
	self      string // real path of this program
	task      string // program equivalent to "ralph task"
	scriptDir string // contains lib/task
	binDir    string // prepended to PATH, or ""
	temp      string // temporary directory, or ""
}

// findPrograms uses the links next to the program, or creates its own in a temporary
// directory.
func findPrograms() (p programs, err error) {
	if p.self, err = realPath(); err != nil {
		return p, err
	}
	dir := filepath.Dir(p.self)
	for _, beside := range []string{filepath.Join(dir, "lib", "task"), filepath.Join(dir, "task")} {
		if same(beside, p.self) || compat.IsTask(beside) {
			p.task, p.scriptDir = beside, dir
			break
		}
	}
	onPath, err := exec.LookPath("ralph")
	reachable := err == nil && same(onPath, p.self)
	if p.task != "" && reachable {
		return p, nil
	}
	return p, p.makeLinks(reachable)
}

// realPath returns the path of this program without links.
func realPath() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", fmt.Errorf("finding the running program: %w", err)
	}
	return self, nil
}

// preflight checks for the sqlite3 program, which scripts of the original's layout run.
// It applies only to a program installed in that layout: ralph itself embeds SQLite.
func preflight() error {
	self, err := realPath()
	if err != nil {
		return err
	}
	if filepath.Base(self) != compat.Program || os.Getenv(config.GuestEnv) != "" {
		return nil
	}
	if _, err := exec.LookPath("sqlite3"); err != nil {
		const message = "sqlite3 is required but not installed.\n  Install via package manager: sudo apt install sqlite3  (or equivalent)"
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

// tempDir returns the session's temporary directory.
func (p *programs) tempDir() (string, error) {
	if p.temp != "" {
		return p.temp, nil
	}
	temp, err := os.MkdirTemp("", "ralph-")
	if err != nil {
		return "", hint.Wrap(fmt.Errorf("creating a temporary directory for the session: %w", err), "set TMPDIR to a writable directory")
	}
	p.temp = temp
	return temp, nil
}

func (p *programs) remove() {
	if p.temp != "" {
		_ = os.RemoveAll(p.temp)
	}
}

// same reports whether two paths are the same file.
func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
