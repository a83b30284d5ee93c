package guest

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/docker-ralph/docker-ralph/wire"

	"golang.org/x/sys/unix"

	"github.com/docker-ralph/docker-ralph/ralph/hook"
)

// scriptPath is where the program of the other checkout is installed. It finds
// its parts beside itself, through any links.
func (b bootstrap) scriptPath() string { return filepath.Join(b.opt, scriptName) }

// installCheckout installs another checkout and what it needs, and returns the
// path of its program.
func (b bootstrap) installCheckout(c checkout) (string, error) {
	if err := b.system.requirePrograms(); err != nil {
		return "", fmt.Errorf("installing the ralph of %s: %w", c.dir, err)
	}
	stage := filepath.Join(b.home, ".ralph", ".stage")
	if err := os.RemoveAll(stage); err != nil {
		return "", fmt.Errorf("installing the ralph of %s: %w", c.dir, err)
	}
	defer func() { _ = os.RemoveAll(stage) }()
	program, skills := c.parts()
	if err := program.copyTo(filepath.Join(stage, wire.Program)); err != nil {
		return "", fmt.Errorf("installing the ralph of %s: %w", c.dir, err)
	}
	if err := skills.copyTo(stage); err != nil {
		return "", fmt.Errorf("installing the ralph of %s: %w", c.dir, err)
	}
	if err := b.system.replace(filepath.Join(stage, wire.Program), b.opt); err != nil {
		return "", err
	}
	if err := b.installSkills(filepath.Join(stage, skillsFolder), len(skills.files) > 0); err != nil {
		return "", err
	}
	if err := b.registerHooks(program); err != nil {
		return "", err
	}
	return b.linkScript()
}

// installSkills replaces those of the user's skills that the checkout has too.
func (b bootstrap) installSkills(from string, some bool) error {
	if !some {
		return nil
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("installing skills: %w", err)
	}
	for _, e := range entries {
		if err := b.system.replace(filepath.Join(from, e.Name()), filepath.Join(b.home, ".claude", "skills", e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// registerHooks makes Claude Code run the hooks of the checkout.
func (b bootstrap) registerHooks(c checkout) error {
	file := func(name string) string { return filepath.Join("hooks", name+".sh") }
	for name := range hook.Events() {
		if !c.has(file(name)) {
			return nil // a command without its file would end every session with an error
		}
	}
	return hook.Register(filepath.Join(b.home, ".claude", "settings.json"), func(name string) string {
		return "bash " + hook.Quote(filepath.Join(b.opt, file(name)))
	})
}

// linkScript makes ralph the program of the checkout, and takes away the task
// that belonged to ours.
func (b bootstrap) linkScript() (string, error) {
	path, task := filepath.Join(b.bin, wire.Program), filepath.Join(b.bin, "task")
	asRoot := needsRoot(b.bin)
	if err := b.system.link(b.scriptPath(), path, asRoot); err != nil {
		return "", err
	}
	if target, err := os.Readlink(task); err == nil && target == wire.Program {
		if err := b.system.script(asRoot, "removing "+task, `rm -f "$1"`, task); err != nil {
			return "", err
		}
	}
	return path, nil
}

// replace puts a copy of what is at from in the place of path. In between, for
// a moment, there is nothing; a killed one is done again.
func (s system) replace(from, path string) error {
	const lines = `dir=${2%/*}; new=$dir/.${2##*/}.new; old=$dir/.${2##*/}.old
mkdir -p "$dir"; rm -rf "$new" "$old"; cp -R "$1" "$new"
if [ -e "$2" ] || [ -L "$2" ]; then mv -T "$2" "$old"; fi
mv -T "$new" "$2"; rm -rf "$old"`
	return s.script(needsRoot(filepath.Dir(path)), "installing "+path, lines, from, path)
}

// needsRoot tells whether the user may not write to a folder, or where it would
// have to be made.
func needsRoot(dir string) bool {
	for dir != "/" && unix.Access(dir, unix.F_OK) != nil {
		dir = filepath.Dir(dir)
	}
	return unix.Access(dir, unix.W_OK) != nil
}
