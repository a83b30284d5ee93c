package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/config"
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
	if p.self, err = os.Executable(); err == nil {
		p.self, err = filepath.EvalSymlinks(p.self)
	}
	if err != nil {
		return p, fmt.Errorf("finding the program itself: %w", err)
	}
	dir := filepath.Dir(p.self)
	for _, beside := range []string{filepath.Join(dir, "lib", "task"), filepath.Join(dir, "task")} {
		if same(beside, p.self) {
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

func (p *programs) makeLinks(reachable bool) error {
	temp, err := os.MkdirTemp("", "ralph-")
	if err != nil {
		return fmt.Errorf("preparing the session: %w", err)
	}
	p.temp = temp
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

func (p *programs) remove() {
	if p.temp != "" {
		_ = os.RemoveAll(p.temp)
	}
}

func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

func runnable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
