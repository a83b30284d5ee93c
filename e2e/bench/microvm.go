//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/internal/testutil/sandboxcli"
	"github.com/docker-ralph/docker-ralph/lifecycle/microvm"
)

// share is how much a warm dispatch may take beside what the microVM program
// takes itself.
const share = 25 * time.Millisecond

// vm is a place where a driver's microVMs are processes of its program's
// fake, which answers at once.
type vm struct {
	b      *bench
	driver string
	dir    string // all of it is below
	repo   string
	plugin string
}

// microVMs measures dispatches by the drivers of microVM programs.
func (b *bench) microVMs() error {
	for _, driver := range microvm.Drivers() {
		v := &vm{b: b, driver: driver, dir: filepath.Join(b.dir, driver)}
		v.repo, v.plugin = filepath.Join(v.dir, "repo"), filepath.Join(v.config(), "cli-plugins", "docker-ralph")
		if err := v.setUp(); err != nil {
			return fmt.Errorf("setting up the fake for %s: %w", driver, err)
		}
		if err := errors.Join(v.measure(), sandboxcli.Purge(b.ctx, v.state())); err != nil {
			return fmt.Errorf("measuring driver %s: %w", driver, err)
		}
	}
	return nil
}

func (v *vm) state() string  { return filepath.Join(v.dir, "state") }
func (v *vm) bin() string    { return filepath.Join(v.dir, "bin") }
func (v *vm) home() string   { return filepath.Join(v.dir, "home") }
func (v *vm) config() string { return filepath.Join(v.dir, "docker") }

// program is where the fake is for this driver to find it.
func (v *vm) program() string {
	if v.driver == microvm.Sbx {
		return filepath.Join(v.bin(), "sbx")
	}
	return filepath.Join(v.config(), "cli-plugins", "docker-sandbox")
}

// setUp makes all of this. The fake runs commands on this machine, and so not
// as root: everything belongs to another user then.
func (v *vm) setUp() error {
	settings := sandboxcli.Defaults()
	settings.Idle = sandboxcli.Duration(time.Hour)
	for _, dir := range []string{v.state(), v.bin(), filepath.Dir(v.plugin), v.home(), v.repo} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := settings.Save(v.state()); err != nil {
		return err
	}
	// What is installed in the sandbox must not get to where this machine keeps
	// its own programs.
	if err := script(filepath.Join(v.bin(), "sudo"), "exit 1"); err != nil {
		return err
	}
	if err := v.b.repository(v.repo, "microvm"); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"go", "build", "-trimpath", "-o", v.program(), "./internal/testutil/sandboxcli/program"},
		{"cp", filepath.Join("bin", "docker-ralph"), v.plugin},
	} {
		cmd := exec.CommandContext(v.b.ctx, args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	if os.Getuid() != 0 {
		return nil
	}
	return filepath.WalkDir(v.dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, uid))
	})
}

func script(path, line string) error {
	return os.WriteFile(path, []byte("#!/bin/sh\n"+line+"\n"), 0o755)
}

// env is the environment that everything here runs in. There is no place for a clone, and no engine: the
// image is one that the microVM program has itself.
func (v *vm) env() []string {
	return append(os.Environ(), "PATH="+v.bin()+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+v.home(),
		"DOCKER_CONFIG="+v.config(), "DOCKER_HOST=unix://"+filepath.Join(v.dir, "none.sock"),
		"GIT_CONFIG_NOSYSTEM=1", "RALPH_WORKSPACE=live", sandboxcli.DirEnv+"="+v.state())
}

// run runs a command in the work tree, and returns how long it took and what
// it said.
func (v *vm) run(env []string, name string, args ...string) (time.Duration, string, error) {
	cmd := exec.CommandContext(v.b.ctx, name, args...)
	cmd.Dir, cmd.Env = v.repo, env
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out.String(), said.String())
	}
	return took, out.String(), err
}

// ralph is the command line of a dispatch, behind "docker" or the plugin.
func (v *vm) ralph(args ...string) []string {
	return append([]string{"ralph", "--driver", v.driver, "--agent", "shell"}, args...)
}

// measure measures a warm dispatch of a shell beside what the microVM program takes to list its sandboxes and to run
// a program in one.
func (v *vm) measure() error {
	if _, _, err := v.run(v.env(), v.plugin, v.ralph("shell", "--", "true")...); err != nil {
		return err
	}
	_, names, err := v.run(v.env(), v.plugin, "ralph", "ls", "-q")
	if err != nil {
		return err
	}
	if err := v.compare("warm dispatch by "+v.driver, v.plugin, strings.TrimSpace(names)); err != nil {
		return err
	}
	return v.compare("  with the start of docker", "docker", strings.TrimSpace(names))
}

// peer returns how long the microVM program takes.
func (v *vm) peer(name string) (total time.Duration, err error) {
	program, command := v.program(), []string(nil)
	if v.driver == microvm.DockerSandbox {
		program, command = "docker", []string{"sandbox"}
	}
	for _, args := range [][]string{{"ls", "--json"}, {"exec", name, "true"}} {
		took, _, err := v.run(v.env(), program, append(slices.Clone(command), args...)...)
		if err != nil {
			return 0, err
		}
		total += took
	}
	return total, nil
}

// compare measures a dispatch and its peer in turn, so that what else goes on
// here meets both. Our share is the median of the differences.
func (v *vm) compare(what, program, name string) error {
	var whole, its, ours []time.Duration
	for range runs {
		all, _, err := v.run(v.env(), program, v.ralph("shell", "--", "true")...)
		if err != nil {
			return err
		}
		part, err := v.peer(name)
		if err != nil {
			return err
		}
		whole, its, ours = append(whole, all), append(its, part), append(ours, all-part)
	}
	goal := ""
	if v.driver == microvm.Sbx && program == v.plugin {
		goal = fmt.Sprintf(" (goal: at most %s above)", ms(share))
	}
	w, i := median(whole), median(its)
	fmt.Printf("%-35s %s, the fake %s, %s above, ratio %.2f%s\n", what, ms(w), ms(i), ms(median(ours)), float64(w)/float64(i), goal)
	return nil
}
