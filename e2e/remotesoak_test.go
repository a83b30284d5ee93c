//go:build linux

package e2e

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/docker-ralph/docker-ralph/internal/testutil/slowlink"
)

// TestRemoteSoak disturbs loops on remote engines as TestSoak does those of this machine, and
// their connections: they are cut, freeze, and end with their processes.
func TestRemoteSoak(t *testing.T) {
	if *soakTime == 0 {
		onlyInMatrix(t)
	}
	t.Parallel()
	for i, transport := range transports {
		e := engineAfter(remoteEnginesFor(t)[0], i)
		t.Run(transport.name+"-"+e.Name, func(t *testing.T) {
			t.Parallel()
			w, link := newRemoteWorld(t, e, transport)
			s := &soak{
				t: t, w: w, link: link, api: e.Client(t), lasts: cmp.Or(*soakTime, 10*time.Second), pause: 2 * time.Second,
				agentFaults: slices.Concat(slices.DeleteFunc(slices.Clone(agentFaults), needsAlternates), cloneFaults), disturbances: remoteDisturbances,
			}
			if transport.name == "tls" {
				s.disturbances = slices.DeleteFunc(slices.Clone(remoteDisturbances), func(d disturbance) bool { return strings.HasPrefix(d.name, "ssh") })
			}
			s.useOwnLogins()
			s.run(20)
		})
	}
}

// needsAlternates reports whether a fault finds out what the host has by the object directory of
// the host, which a clone does not have.
func needsAlternates(m agentFault) bool { return strings.Contains(m.step, afterFetch) }

// afterFetchOfClone is afterFetch for a clone.
const afterFetchOfClone = `for i in $(seq 50); do git for-each-ref --format='%(objectname)' | grep -qvxFf "$GOCACHE/fetched" || break; sleep 0.1; done; test $i != 50 && `

// cloneFaults are faults that agents cause in clones only.
var cloneFaults = []agentFault{
	{name: "HEAD removed", weight: 3, step: afterFetchOfClone + "rm -f .git/HEAD"},
	{name: "git directory broken", weight: 2, step: afterFetchOfClone + "rm -rf .git/objects"},
	{name: "git directory emptied", weight: 1, step: afterFetchOfClone + "rm -rf .git/*"},
	{name: "HEAD locked", weight: 2, step: ": >.git/HEAD.lock"},
	{name: "branch locked", weight: 2, step: ": >.git/refs/heads/main.lock"},
	{name: "commit amended", weight: 2, step: "echo $id >amended-$id; git add amended-$id; git commit -qm amend -- amended-$id; git commit -q --amend -m amended-$id", last: true},
	{name: "files left", weight: 2, step: "echo $id >left-$id; exit 1", last: true},
}

// publishCommits keeps a list of the host's commits where agents read it, until the test ends.
func (s *soak) publishCommits() {
	done, ended := make(chan struct{}), make(chan struct{})
	s.t.Cleanup(func() {
		close(done)
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(300 * time.Millisecond):
			}
			all, err := s.w.command("git", "rev-list", "--all").Output()
			if err == nil {
				temp := filepath.Join(s.cache, "fetching")
				_ = os.WriteFile(temp, all, 0o644) // without it, nothing is broken
				_ = os.Rename(temp, filepath.Join(s.cache, "fetched"))
			}
		}
	}()
}

// remoteDisturbances are the faults of a remote engine.
var remoteDisturbances = []disturbance{
	{"connections cut", 6, func(s *soak) { s.outage((*slowlink.Link).Cut, 3*time.Second) }},
	{"connections frozen", 4, func(s *soak) { s.outage((*slowlink.Link).Freeze, 4*time.Second) }},
	{"connections frozen for long", 1, func(s *soak) { s.outage((*slowlink.Link).Freeze, 40*time.Second) }},
	{"ssh killed", 4, func(s *soak) { s.killSSH("") }},
	{"ssh's shared login killed", 3, func(s *soak) { s.killSSH("[mux]") }},
	{"plugin stopped and continued", 4, func(s *soak) {
		s.mu.Lock()
		build := s.build
		s.mu.Unlock()
		if build != nil {
			build.signalGroup(syscall.SIGSTOP)
			<-time.After(s.upTo(3 * time.Second))
			build.signalGroup(syscall.SIGCONT)
		}
	}},
	pluginSignal(4, syscall.SIGKILL), pluginSignal(1, syscall.SIGINT), pluginSignal(1, syscall.SIGTERM), pluginSignal(1, syscall.SIGHUP),
	userCommand(2, "task", "list"), userCommand(2, "status"), userCommand(1, "ls"), userCommand(1, "repair"),
	userCommand(1, "stop"), userCommand(1, "stop", "--now"), userCommand(2, "shell", "--", "true"), userCommand(1, "--recreate", "shell", "--", "true"),
	brieflyCommand(2, "logs", "-f"), brieflyCommand(2, "attach"),
	sandboxEvent("agent killed", 4), sandboxEvent("loop killed", 2), sandboxEvent("sandbox's first process killed", 1),
	sandboxEvent("sandbox restarted", 1), sandboxEvent("sandbox removed", 1), sandboxEvent("proxy killed", 1),
}

// sandboxEvent is a disturbance of TestSoak with another weight.
func sandboxEvent(name string, weight int) disturbance {
	i := slices.IndexFunc(disturbances, func(d disturbance) bool { return d.name == name })
	return disturbance{name, weight, disturbances[i].do}
}

// brieflyCommand is another command of the user, which is killed after a while.
func brieflyCommand(weight int, args ...string) disturbance {
	return disturbance{"docker ralph " + strings.Join(args, " "), weight, func(s *soak) {
		after := s.upTo(4 * time.Second)
		s.users.Go(func() {
			p := start(s.t, s.w.docker(append([]string{"ralph"}, args...)...))
			select {
			case <-p.done:
			case <-time.After(after):
				p.signalGroup(syscall.SIGKILL)
				<-p.done
			}
			s.logf("docker ralph %s: exit code %d\n%s", strings.Join(args, " "), p.code, strings.TrimSpace(p.stderr.String()))
		})
	}}
}

// outage interrupts the connections for a while. Other disturbances happen meanwhile, but not
// another outage.
func (s *soak) outage(begin func(*slowlink.Link), longest time.Duration) {
	if !s.linkMu.TryLock() {
		return
	}
	lasts := min(s.upTo(longest), time.Until(s.end))
	s.users.Go(func() {
		defer s.linkMu.Unlock()
		begin(s.link)
		<-time.After(lasts)
		assert.Check(s.t, s.link.Restore())
	})
}

func (s *soak) upTo(longest time.Duration) time.Duration {
	return time.Duration(s.rnd.Int64N(int64(longest)))
}

// useOwnLogins has ssh share logins in a directory of the world, whose path is short enough for it.
func (s *soak) useOwnLogins() {
	dir, err := os.MkdirTemp("", "soak-")
	assert.NilError(s.t, err)
	s.t.Cleanup(func() { assert.Check(s.t, os.RemoveAll(dir)) })
	s.w.chown(s.t, dir)
	s.w.setenv("XDG_RUNTIME_DIR", dir)
	s.logins = dir
}

// killSSH kills the processes of ssh that connect to the world's engine, or only those whose title
// has a word.
func (s *soak) killSSH(word string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		args, _ := os.ReadFile(file)
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && bytes.HasPrefix(args, []byte("ssh")) && bytes.Contains(args, []byte(s.logins)) && bytes.Contains(args, []byte(word)) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}
