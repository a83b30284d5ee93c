//go:build unix

// Command bench prints what this program costs, each figure beside that of
// docker itself, measured in turn in one run. It needs bin/docker-ralph and
// the engines that RALPH_TEST_ENGINES and RALPH_TEST_REMOTE_ENGINES list, with
// the image RALPH_TEST_BASE. Arguments choose what is measured: plugin, ralph,
// microvm, engine, session, network, image, clone, remote, transfer.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

const (
	runs    = 20
	creates = 7
	uid     = 1000 // the images' own user, as on most people's machines

	listRatio     = 0.6
	dispatchRatio = 2.0
	createRatio   = 1.4

	peerName = "ralph-bench-peer"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// run measures the chosen parts, or all.
func run(ctx context.Context, chosen []string) error {
	dir, err := os.MkdirTemp("", "ralph-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := bench{ctx: ctx, dir: dir, base: "ralph-test-base:bookworm"}
	if base := os.Getenv("RALPH_TEST_BASE"); base != "" {
		b.base = base
	}
	if err := b.setUp(); err != nil {
		return err
	}
	parts := []struct {
		name    string
		measure func() error
	}{
		{"plugin", b.metadata},
		{"ralph", b.guest},
		{"microvm", b.microVMs},
		{"engine", b.engines},
		{"session", b.sessions},
		{"network", b.network},
		{"image", b.images},
		{"clone", b.clones},
		{"remote", b.remote},
		{"transfer", b.transfer},
	}
	for _, part := range parts {
		if len(chosen) > 0 && !slices.Contains(chosen, part.name) {
			continue
		}
		if err := part.measure(); err != nil {
			return fmt.Errorf("measuring %s: %w", part.name, err)
		}
	}
	return nil
}

// engines measures sandboxes on each engine.
func (b *bench) engines() error { return b.eachEngine(b.measure) }

// eachEngine measures something on each engine.
func (b *bench) eachEngine(measure func() error) error {
	return b.onEach(engines.List(), func(engines.Engine) error { return measure() })
}

// onEach measures something on engines, in a worktree for each: a sandbox stays on its engine.
func (b *bench) onEach(all []engines.Engine, measure func(engines.Engine) error) error {
	if len(all) == 0 {
		return errors.New("RALPH_TEST_ENGINES and RALPH_TEST_REMOTE_ENGINES name no engines: \"make bench\" sets them")
	}
	for _, e := range all {
		b.engine, b.host, b.repo = e.Name, e.Host, filepath.Join(b.dir, e.Name)
		if err := b.newRepository(); err != nil {
			return err
		}
		if err := measure(e); err != nil {
			return fmt.Errorf("on engine %s: %w", e.Name, err)
		}
	}
	return nil
}

type bench struct {
	ctx                context.Context
	dir, base          string
	engine, host, repo string
	env                []string // for the engine
	largest            int64    // bytes of memory that a process of the last command had at most
}

// setUp makes a repository and a configuration folder with the plugin.
func (b *bench) setUp() error {
	plugin, err := filepath.Abs(filepath.Join("bin", "docker-ralph"))
	if err != nil {
		return err
	}
	plugins := filepath.Join(b.dir, "docker", "cli-plugins")
	b.repo = filepath.Join(b.dir, "repo")
	if err := errors.Join(os.Chmod(b.dir, 0o755), os.MkdirAll(plugins, 0o755)); err != nil {
		return err
	}
	if err := os.Symlink(plugin, filepath.Join(plugins, "docker-ralph")); err != nil {
		return err
	}
	return b.newRepository()
}

// newRepository makes the folder of the repository one with a commit, unless it is one.
func (b *bench) newRepository() error {
	if _, err := os.Stat(filepath.Join(b.repo, ".git")); err == nil {
		return nil
	}
	if err := os.MkdirAll(b.repo, 0o755); err != nil {
		return err
	}
	if err := b.repository(b.repo, fmt.Sprintf("%s-%d", filepath.Base(b.repo), os.Getpid())); err != nil {
		return err
	}
	if os.Getuid() != 0 {
		return nil
	}
	_, err := b.time("chown", "-R", fmt.Sprint(uid), b.repo)
	return err
}

// repository makes a folder a repository with one commit.
func (b *bench) repository(dir, name string) error {
	_, err := b.timeAll([][]string{
		{"git", "init", "-q", "-b", "bench", dir},
		{"git", "-C", dir, "remote", "add", "origin", "https://example.com/bench/" + name + ".git"},
		{"git", "-C", dir, "-c", "user.name=b", "-c", "user.email=b@example.com", "commit", "-q", "--allow-empty", "-m", "first"},
	})
	return err
}

// time runs a command in the repository and returns how long it took.
func (b *bench) time(name string, args ...string) (time.Duration, error) {
	start := time.Now()
	_, err := b.said(name, args...)
	return time.Since(start), err
}

// said runs a command in the repository and returns what it printed.
func (b *bench) said(name string, args ...string) (string, error) {
	cmd := exec.CommandContext(b.ctx, name, args...)
	cmd.Dir = b.repo
	cmd.Env = b.environment()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if cmd.ProcessState != nil {
		if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			b.largest = usage.Maxrss << 10
		}
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out.String())
	}
	return out.String(), err
}

// environment returns the environment of commands.
func (b *bench) environment() []string {
	env := append(os.Environ(), "DOCKER_CONFIG="+filepath.Join(b.dir, "docker"), "DOCKER_HOST="+b.host,
		"BUILDKIT_PROGRESS=quiet", "BUILDX_NO_DEFAULT_ATTESTATIONS=1", "GIT_CONFIG_NOSYSTEM=1", fmt.Sprintf("SUDO_UID=%d", uid))
	return append(env, b.env...)
}

func (b *bench) ralph(args ...string) []string {
	return append([]string{"docker", "ralph", "--agent", "shell", "--base", b.base}, args...)
}

func (b *bench) metadata() error {
	plugin := filepath.Join(b.dir, "docker", "cli-plugins", "docker-ralph")
	var all []time.Duration
	for range runs {
		d, err := b.time(plugin, "docker-cli-plugin-metadata")
		if err != nil {
			return err
		}
		all = append(all, d)
	}
	fmt.Printf("metadata answer of the plugin       %s (goal: at most 15 ms)\n", ms(median(all)))
	return nil
}

// create creates the sandbox, and returns its name and a docker exec command that runs a program in it.
func (b *bench) create() (name string, peer []string, err error) {
	if _, err := b.timeAll([][]string{b.enter()}); err != nil {
		return "", nil, err
	}
	if name, err = b.output("ps", "--format", "{{.Names}}", "--filter", "label=io.github.docker-ralph.worktree="+b.repo); err != nil {
		return "", nil, err
	}
	user, err := b.output("inspect", "--format", `{{index .Config.Labels "io.github.docker-ralph.user"}}`, name)
	return name, []string{"docker", "exec", "-u", user, "-w", b.repo, name, "true"}, err
}

// enter is our command that does the same.
func (b *bench) enter() []string { return b.ralph("shell", "--", "true") }

func (b *bench) measure() error {
	name, peer, err := b.create()
	if err != nil {
		return err
	}
	defer func() { _, _ = b.timeAll([][]string{removal(name)}) }()
	for _, row := range []struct {
		what string
		goal float64
		ours []string
	}{
		{"task list", listRatio, b.ralph("task", "list")},
		{"warm dispatch of a shell", dispatchRatio, b.enter()},
	} {
		if err := b.compare(row.what, "docker exec", row.goal, runs, [][]string{row.ours}, [][]string{peer}); err != nil {
			return err
		}
	}
	image, err := b.output("inspect", "--format", "{{.Config.Image}}", name)
	if err != nil {
		return err
	}
	if _, err := b.timeAll([][]string{removal(name)}); err != nil {
		return err
	}
	// Without what a network policy and a clone cost, and with both.
	direct := append([]string{"env", "RALPH_WORKSPACE=live"}, b.ralph("--network", "allow-all", "shell", "--", "true")...)
	for _, row := range []struct {
		what string
		ours []string
	}{
		{"create, without a proxy", direct},
		{"create", b.enter()},
	} {
		err := b.compare(row.what, "docker run -d and exec", createRatio, creates, [][]string{row.ours},
			[][]string{
				{"docker", "run", "-d", "--name", peerName, image, "sleep", "1000"},
				{"docker", "exec", peerName, "true"},
			}, removal(name), []string{"docker", "rm", "-fv", peerName})
		if err != nil {
			return err
		}
	}
	return nil
}

// settle is what an engine gets to tidy up after a removal, so that the next
// measurement does not pay for it.
const settle = 500 * time.Millisecond

// compare measures ours and the peer's commands in turn. The commands of
// cleanUp run before each measurement and are not counted.
func (b *bench) compare(what, peer string, goal float64, n int, ours, theirs [][]string, cleanUp ...[]string) error {
	var mine, its []time.Duration
	for range n {
		for i, commands := range [][][]string{ours, theirs} {
			if len(cleanUp) > 0 {
				if _, err := b.timeAll(cleanUp); err != nil {
					return err
				}
				time.Sleep(settle)
			}
			total, err := b.timeAll(commands)
			if err != nil {
				return err
			}
			if i == 0 {
				mine = append(mine, total)
			} else {
				its = append(its, total)
			}
		}
	}
	m, t := median(mine), median(its)
	fmt.Printf("%-7s %-32s %s, %s %s, ratio %.2f (goal: at most %.1f)\n", b.engine, what, ms(m), peer, ms(t), float64(m)/float64(t), goal)
	return nil
}

func (b *bench) timeAll(commands [][]string) (time.Duration, error) {
	var total time.Duration
	for _, c := range commands {
		d, err := b.time(c[0], c[1:]...)
		if err != nil {
			return 0, err
		}
		total += d
	}
	return total, nil
}

func (b *bench) output(args ...string) (string, error) {
	cmd := exec.CommandContext(b.ctx, "docker", args...)
	cmd.Env = b.environment()
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("docker %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
