//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
	"github.com/docker-ralph/docker-ralph/internal/testutil/slowlink"
)

// The link to an engine on another machine, and goals.
const (
	remoteDelay = 25 * time.Millisecond // of one direction
	remoteTakes = 800 * time.Millisecond
	remoteRatio = 1.5

	bandwidth     = 25 << 20 // bytes per second
	transferred   = 1 << 30
	transferRuns  = 1
	transferRatio = 1.1
	// changed is about what a small commit takes with the commands to send it.
	changed = 100 << 10
)

// throughLink measures something on each remote engine, reached by TLS through a slow link.
func (b *bench) throughLink(measure func(link *slowlink.Link) error) error {
	return b.onEach(engines.ListRemote(), func(e engines.Engine) error {
		link, err := slowlink.Listen(b.ctx, net.JoinHostPort(e.Gateway, "0"), "tcp", e.TLS, remoteDelay)
		if err != nil {
			return err
		}
		defer link.Close()
		b.host, b.env = "tcp://"+link.Addr(), []string{"DOCKER_TLS_VERIFY=1", "DOCKER_CERT_PATH=" + os.Getenv("RALPH_TEST_CERTS")}
		defer func() { b.env = nil }()
		return measure(link)
	})
}

// remote measures a command in a running sandbox on another machine.
func (b *bench) remote() error {
	return b.throughLink(func(*slowlink.Link) error {
		name, peer, err := b.create()
		if err != nil {
			return err
		}
		defer func() { _, _ = b.timeAll([][]string{removal(name)}) }()
		what := fmt.Sprintf("a shell %s away (goal: %s)", 2*remoteDelay, remoteTakes)
		return b.compare(what, "docker exec", remoteRatio, runs, [][]string{b.enter()}, [][]string{peer})
	})
}

// transfer measures sending a repository to another machine, beside its bytes.
func (b *bench) transfer() error {
	return b.throughLink(func(link *slowlink.Link) error {
		var ours, theirs []time.Duration
		for range transferRuns {
			mine, its, err := b.transferOnce(link)
			if err != nil {
				return err
			}
			ours, theirs = append(ours, mine), append(theirs, its)
		}
		m, t := median(ours), median(theirs)
		fmt.Printf("%-7s %-32s %s, docker exec -i cat %s, ratio %.2f (goal: at most %.1f)\n",
			b.engine, fmt.Sprintf("sending %d MiB at %d MiB/s", transferred>>20, bandwidth>>20), ms(m), ms(t), float64(m)/float64(t), transferRatio)
		return nil
	})
}

// transferOnce sends a large history to a sandbox, and then a small commit.
func (b *bench) transferOnce(link *slowlink.Link) (ours, theirs time.Duration, err error) {
	b.repo = filepath.Join(b.dir, fmt.Sprintf("transfer-%s-%d", b.engine, time.Now().UnixNano()))
	if err := b.newRepository(); err != nil {
		return 0, 0, err
	}
	enter := [][]string{b.ralph("shell", "--", "true")}
	if _, err := b.timeAll(enter); err != nil { // with all that is done once
		return 0, 0, err
	}
	name, err := b.output("ps", "--format", "{{.Names}}", "--filter", "label=io.github.docker-ralph.worktree="+b.repo)
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		_, _ = b.timeAll([][]string{removal(name)})
		_ = os.RemoveAll(b.repo)
	}()
	if err := b.importHistory(transferred); err != nil {
		return 0, 0, err
	}
	link.SetBandwidth(bandwidth)
	defer link.SetBandwidth(0)
	send := `cat .git/objects/pack/*.pack | docker exec -i "$1" sh -c 'cat >/dev/null'`
	if theirs, err = b.timeAll([][]string{{"sh", "-c", send, "sh", name}}); err != nil {
		return 0, 0, err
	}
	if ours, err = b.timeAll(enter); err != nil {
		return 0, 0, err
	}
	before := link.Stats()
	_, err = b.timeAll([][]string{
		{"git", "-c", "user.name=b", "-c", "user.email=b@example.com", "commit", "-q", "--allow-empty", "-m", "small"},
		enter[0],
	})
	if err == nil {
		fmt.Printf("%-7s %-32s %d KiB sent (goal: at most %d KiB)\n", b.engine, "shell after a small commit", link.Stats().Since(before).Sent>>10, changed>>10)
	}
	return ours, theirs, err
}

// importHistory adds commits with a pack of so many random bytes, of which only one file is checked out.
func (b *bench) importHistory(size int64) error {
	const files = 64
	cmd := exec.CommandContext(b.ctx, "git", "-c", "core.compression=0", "-c", "fastimport.unpackLimit=1", "fast-import", "--quiet", "--depth=0")
	cmd.Dir, cmd.Env = b.repo, b.environment()
	var failed bytes.Buffer
	cmd.Stderr = &failed
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	random, err := os.Open("/dev/urandom")
	if err != nil {
		return err
	}
	defer func() { _ = random.Close() }()
	if err := cmd.Start(); err != nil {
		return err
	}
	from := "from refs/heads/bench^0\n"
	for range files {
		_, _ = fmt.Fprintf(in, "commit refs/heads/bench\ncommitter b <b@example.com> 1700000000 +0000\ndata 5\nlarge\n%sM 100644 inline large\ndata %d\n", from, size/files)
		if _, err := io.CopyN(in, random, size/files); err != nil {
			break // reported by git
		}
		_, _ = fmt.Fprintln(in)
		from = ""
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("git fast-import: %w\n%s", err, failed.String())
	}
	_, err = b.timeAll([][]string{{"git", "reset", "-q", "--hard"}})
	return err
}
