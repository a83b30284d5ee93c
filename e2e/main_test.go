//go:build unix

// Package e2e tests docker-ralph as its users run it: through the real docker
// command, in real repositories, on real engines.
//
// Each test asserts one behaviour. It checks results (commits, containers, files)
// before messages, and waits for events instead of sleeping.
package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/docker-ralph/docker-ralph/e2e/registry"
)

// suite is what all tests share: programs that no test changes.
type suite struct {
	root   string // the checkout
	dir    string // removed at the end
	bin    string // has docker and nothing else
	client int    // major version of docker
	plugin string // docker-ralph
	fakes  string // has the fakes of the microVM programs, and nothing else
	images *imageStore
	// newer returns a docker-ralph that carries a ralph of another version.
	newer func() (string, error)
	// ralph returns ralph itself, for this machine.
	ralph func() (string, error)
}

// newerVersion is the version of the newer plugin's ralph.
const newerVersion = "v9.9.9-e2e"

func TestMain(m *testing.M) {
	if arch := os.Getenv(registryVariable); arch != "" {
		_, _ = fmt.Fprintln(os.Stderr, registry.Serve(context.Background(), os.Stdout, arch))
		os.Exit(1)
	}
	flag.Parse()
	if signal.Ignored(syscall.SIGHUP) { // nohup runs the tests, and all that they start would ignore it too
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	// Nearly all of the time is spent waiting for engines.
	if f := flag.Lookup("test.parallel"); f.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set(fmt.Sprint(2 * runtime.GOMAXPROCS(0)))
	}
	s, err := newSuite()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "setting the tests up:", err)
		_ = os.RemoveAll(s.dir)
		os.Exit(1)
	}
	shared = s
	code := m.Run()
	_ = os.RemoveAll(s.dir)
	os.Exit(code)
}

// shared is set once, before the first test.
var shared suite

func newSuite() (suite, error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return suite{}, err
	}
	dir, err := os.MkdirTemp("", "docker-ralph-e2e-")
	if err != nil {
		return suite{}, err
	}
	s := suite{
		root: root, dir: dir, bin: filepath.Join(dir, "bin"), plugin: filepath.Join(dir, "docker-ralph"),
		fakes: filepath.Join(dir, "microvm"), images: &imageStore{},
	}
	s.newer = sync.OnceValues(func() (string, error) {
		plugin := filepath.Join(dir, "docker-ralph-newer")
		return plugin, buildPlugin(root, plugin, newerVersion)
	})
	s.ralph = sync.OnceValues(func() (string, error) {
		program := filepath.Join(dir, "ralph")
		return program, goTool(root, runtime.GOOS, "build", "-trimpath", "-o", program, "./cmd/ralph")
	})
	docker, err := exec.LookPath("docker")
	if err != nil {
		return s, errors.New("the docker command is needed: \"make test\" finds one")
	}
	// Ordinary users must get at it, wherever it is.
	err = errors.Join(os.Chmod(dir, 0o755), os.Mkdir(s.bin, 0o755), os.Chmod(s.bin, 0o755),
		copyProgram(docker, filepath.Join(s.bin, "docker")))
	if err != nil {
		return s, err
	}
	if s.client, err = clientVersion(docker); err != nil {
		return s, err
	}
	if err := buildFakes(root, s.fakes); err != nil {
		return s, err
	}
	if built := os.Getenv("RALPH_TEST_PLUGIN"); built != "" {
		return s, copyProgram(built, s.plugin)
	}
	return s, buildPlugin(s.root, s.plugin, "v0.0.0-e2e")
}

// forwardsSignals is the first version of docker that forwards signals to its plugins
// and completes their command lines.
const forwardsSignals = 25

// clientVersion returns the first number in "Docker version 28.2.2, build …".
func clientVersion(docker string) (major int, err error) {
	out, err := exec.Command(docker, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("asking docker for its version: %w", err)
	}
	if _, err := fmt.Sscanf(string(out), "Docker version %d.", &major); err != nil {
		return 0, fmt.Errorf("reading %q: %w", out, err)
	}
	return major, nil
}

func copyProgram(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(to, content, 0o755), os.Chmod(to, 0o755))
}

// buildFakes builds the fake of the microVM programs, as sbx and docker-sandbox.
func buildFakes(root, dir string) error {
	program := filepath.Join(dir, "sbx")
	err := goTool(root, runtime.GOOS, "build", "-trimpath", "-o", program, "./internal/testutil/sandboxcli/program")
	return errors.Join(err, os.Chmod(dir, 0o755), os.Link(program, filepath.Join(dir, "docker-sandbox")))
}

// buildPlugin builds docker-ralph with a ralph inside that has this version,
// whatever the checkout's own payload is.
func buildPlugin(root, target, version string) error {
	work, err := os.MkdirTemp("", "docker-ralph-build-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	files := filepath.Join(root, "lifecycle", "guestbin", "files")
	archive := "linux-" + runtime.GOARCH
	replace := map[string]string{}
	for _, suffix := range []string{".tar.zst", ".sha256"} {
		replace[filepath.Join(files, archive+suffix)] = filepath.Join(work, archive+suffix)
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	overlay := filepath.Join(work, "overlay.json")
	if err := os.WriteFile(overlay, content, 0o644); err != nil {
		return err
	}
	build := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version=" + version + " -X github.com/docker-ralph/docker-ralph/plugin/metadata.Version=" + version}
	if err := goTool(root, "linux", append(build, "-o", work+"/", "./cmd/ralph", "./cmd/ralph-egress")...); err != nil {
		return err
	}
	if err := goTool(root, runtime.GOOS, "run", "./scripts/pack", filepath.Join(work, archive+".tar.zst"), filepath.Join(work, "ralph"), filepath.Join(work, "ralph-egress")); err != nil {
		return err
	}
	return goTool(root, runtime.GOOS, append(build, "-overlay", overlay, "-o", target, "./cmd/docker-ralph")...)
}

func goTool(root, goos string, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", args[0], err, out)
	}
	return nil
}
