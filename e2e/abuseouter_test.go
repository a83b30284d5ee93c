//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/e2e/abuse/server"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// asked is a step that runs a script as often as it is asked to.
const asked = `n=0
while :; do
	n=$((n+1))
	while ! test -e .ralph/ask$n; do sleep 0.05; done
	script=$(cat .ralph/ask$n)
	test -n "$script" || exit 0
	sh -c "$script" >.ralph/answer 2>&1
	mv .ralph/answer .ralph/answer$n
done`

// Each layer of the wall holds when somebody on this machine takes another one
// away while an agent works, and the next command brings all of them back.
func TestASandboxWhoseWallIsTamperedWith(t *testing.T) {
	if os.Getuid() != 0 {
		notHere(t, "only root can give this machine the addresses of others")
	}
	program := buildProbes(t)
	each(t, func(t *testing.T, w *world) {
		forbidden := publicAddress(t)
		assert.NilError(t, server.Serve(t.Context(), forbidden))
		probe := w.giveProbes(t, program)
		run(t, w.docker("run", "--rm", "-v", program+":/abuse:ro", engines.BaseImage(), "/abuse", "tcp", forbidden+":80")).expect(t, 0)

		w.setenv("RALPH_NETWORK", "allowlist")
		w.plan(t, task{ID: "a", Title: "Try when asked", Steps: []string{asked}})
		build := start(t, w.docker("ralph", "build", "-n", "1"))
		agent := questions{w: w}
		ask := func(script string) string { t.Helper(); return agent.ask(t, script) }
		out := probe + " tcp " + forbidden + ":80 && echo OPEN; "
		through := probe + ` say ${https_proxy#http://} 'CONNECT far.invalid:443 HTTP/1.1\r\n\r\n' HTTP/ && echo ANSWERS`
		said := ask(out + through)
		assert.Check(t, !strings.Contains(said, "OPEN") && strings.Contains(said, "ANSWERS"), said)
		name := w.sandbox(t).Name
		netns := w.container(t).Config.Labels["io.github.docker-ralph.network"] // what holds it has its name

		// The firewall holds on a network that leads out.
		run(t, w.docker("network", "connect", "bridge", netns)).expect(t, 0)
		assert.Check(t, is.Contains(ask("ls /sys/class/net; "+out), "eth1"))
		assert.Check(t, !strings.Contains(ask(out), "OPEN"))
		run(t, w.docker("network", "disconnect", "bridge", netns)).expect(t, 0)

		// The network holds without the firewall.
		run(t, w.docker("run", "--rm", "--cap-add", "NET_ADMIN", "--network", "container:"+netns, "-v", program+":/abuse:ro",
			engines.BaseImage(), "/abuse", "flush")).expect(t, 0)
		assert.Check(t, !strings.Contains(ask(out), "OPEN"))

		// Without the proxy there is nothing. The command brings it back, with its
		// policy, and the firewall.
		run(t, w.docker("kill", name+".egress")).expect(t, 0)
		assert.Check(t, !strings.Contains(ask(out+through), "OPEN"))
		build.stderr.waitFor(t, "Warning: the network of the sandbox "+name+" was interrupted: restored it")
		said = ask(out + through)
		assert.Check(t, !strings.Contains(said, "OPEN") && strings.Contains(said, "403 Forbidden") && strings.Contains(said, "ANSWERS"), said)
		run(t, w.docker("network", "connect", "bridge", netns)).expect(t, 0)
		assert.Check(t, is.Regexp(`eth[1-9]`, ask("ls /sys/class/net; "+out)))
		assert.Check(t, !strings.Contains(ask(out), "OPEN"))
		build.stderr.waitFor(t, "Warning: repairing the sandbox "+name+": the sandbox "+name+" is on the network bridge too, past its proxy")
		assert.Check(t, !strings.Contains(ask(out), "OPEN"))
		run(t, w.docker("network", "disconnect", "bridge", netns)).expect(t, 0)

		// An agent whose command was killed has nobody who brings anything back.
		build.signalGroup(syscall.SIGKILL)
		build.wait(t)
		run(t, w.docker("kill", name+".egress")).expect(t, 0)
		said = ask(out + through)
		assert.Check(t, !strings.Contains(said, "OPEN") && !strings.Contains(said, "ANSWERS"), said)
		ask("")
		eventually(t, func() error {
			if status := w.statuses(t)["a"]; status != "done" {
				return fmt.Errorf("the agent has not ended: its task is %s", status)
			}
			return nil
		})

		// Something is restarted by hand. What comes next closes everything again,
		// and what is refused is refused at once.
		for _, tc := range []struct{ task, restarted string }{{"b", name}, {"c", netns}} {
			run(t, w.docker("restart", "-t", "1", tc.restarted)).expect(t, 0)
			w.plan(t, task{ID: tc.task, Title: "Try again", Steps: []string{"{ " + out + through + "; } >.ralph/said 2>&1"}})
			w.ok(t, "build")
			said = w.read(t, ".ralph/said")
			assert.Check(t, !strings.Contains(said, "OPEN") && !strings.Contains(said, "timeout") && strings.Contains(said, "ANSWERS"), said)
		}

		// A command sees that there is another way out.
		run(t, w.docker("network", "connect", "bridge", netns)).expect(t, 0)
		refused := w.ralph(t, "task", "list").expect(t, 1)
		assert.Check(t, is.Contains(refused.stderr, `past its proxy: take it off with "docker network disconnect bridge `+netns+`"`))
		run(t, w.docker("network", "disconnect", "bridge", netns)).expect(t, 0)
		w.ok(t, "task", "list")
	})
}

// oddNames are names of folders that mean something to a shell, to git or to an
// engine. None of them may do so here.
func oddNames() []string {
	return []string{`a $(touch pwned) b`, "`touch pwned`", `x;touch pwned;"'`, `-v:rw,z`, `*?[a]{b}~&|<>!#%`, `ünï ⼤`}
}

// The work tree is used by its real name, whatever that is and whichever link
// leads there.
func TestWorkTreesWithOddNames(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		odd := filepath.Join(append([]string{w.dir}, oddNames()...)...)
		link := filepath.Join(w.dir, "link")
		assert.NilError(t, os.MkdirAll(filepath.Dir(odd), 0o755))
		assert.NilError(t, os.Rename(w.repo, odd))
		assert.NilError(t, os.Symlink(odd, link))
		w.own(t, w.dir)
		w.repo = link
		w.setenv("PWD", link)
		w.setenv("RALPH_NETWORK", "deny")
		w.setenv("RALPH_GIT", "private")
		w.plan(t, task{ID: "a", Title: "Add a", Steps: []string{"pwd >a.txt"}})
		w.ok(t, "build")
		assert.Equal(t, w.git(t, "show", "HEAD:a.txt"), odd)
		assert.Equal(t, w.git(t, "status", "--porcelain"), "")
		var sources []string
		for _, m := range w.container(t).Mounts {
			if m.Type == "bind" {
				sources = append(sources, m.Source)
			}
		}
		assert.Check(t, is.Contains(sources, odd))
		for _, source := range sources {
			assert.Check(t, !strings.HasPrefix(source, link), source)
		}
		assert.NilError(t, filepath.WalkDir(w.dir, func(path string, _ os.DirEntry, err error) error {
			assert.Check(t, filepath.Base(path) != "pwned", path)
			return err
		}))
	})
}

// usesUp takes all memory and all processes that there are.
const usesUp = `perl -e '$x = "x" x (600 << 20)'; memory=$?
perl -e 'for (;;) { my $p = fork; exit 7 if !defined $p; if (!$p) { $SIG{TERM} = "IGNORE"; sleep 1000; exit } }'
echo $memory $? >.ralph/ends; exit 3`

// An agent that uses up what there is fails, which its loop survives and says, and
// the sandbox is fit for use.
func TestAnAgentThatUsesEverythingUp(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.setenv("RALPH_MEMORY", "256m")
		w.setenv("RALPH_PIDS", "200")
		w.plan(t, task{ID: "a", Title: "Use it up", Steps: []string{usesUp}})
		res := w.ralph(t, "build", "-n", "1").expect(t, 6)
		assert.Check(t, is.Contains(res.stderr, "process limit (200) reached\nHint: raise the limit with RALPH_PIDS"))
		assert.Equal(t, w.read(t, ".ralph/ends"), "137 7\n")
		assert.Check(t, is.Contains(w.ok(t, "task", "show", "a"), "Fail reason: step 1 failed (exit code 3)"))
		w.ok(t, "task", "delete", "a")
		w.plan(t, task{ID: "b", Title: "Work on", Steps: []string{"echo b >b.txt"}})
		w.ok(t, "build")
		assert.DeepEqual(t, w.statuses(t), map[string]string{"b": "done"})
	})
}
