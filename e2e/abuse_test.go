//go:build linux

package e2e

import (
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/e2e/abuse"
	"github.com/docker-ralph/docker-ralph/internal/testutil/engines"
)

// An agent attacks everything it can reach (see the package abuse).

const (
	abuseMemory = 384 // MiB
	abusePids   = 512
	// minProbes is how many there have to be, so that none goes lost.
	minProbes = 230
)

// brokenInContainer are the probes that succeed in an ordinary container. If they did
// not, they would prove nothing.
func brokenInContainer() []string {
	return []string{
		"user-is-not-root", "capabilities-effective", "capabilities-bounding", "no-new-privileges", "setuid-programs", "shadow",
		"make-a-disk", "sockets-packet", "sockets-raw", "processes-are-limited", "fork-bomb", "memory-is-limited", "no-swap", "processors-are-limited",
		"root-is-read-only", "etc-is-read-only", "programs-are-read-only", "tmp-is-limited", "files-belong-to-the-user", "no-setuid-files",
		"make-a-disk-in-the-work-tree", "git-plant-fsmonitor", "git-plant-hooks", "git-plant-filter", "git-directory-cannot-be-moved",
		"metadata", "machine-gateway", "machine-bridge-by-device", "forbidden-http", "forbidden-https", "forbidden-ssh", "forbidden-dns-port", "forbidden-ping",
		"neighbour", "blocked-by-name", "password-in-the-git-directory",
	}
}

// Each probe is blocked in a sandbox, and behaves as expected in an ordinary
// container.
func TestAbuse(t *testing.T) {
	program := buildProbes(t)
	andRemote(t, onEngines, func(t *testing.T, w *world) {
		l, canary := setUpProbes(t, w, program)
		assertHeld(t, w, l, canary)
		if w.endpoint == nil {
			assertProbesWork(t, w, l, canary)
		}
	})
}

// assertHeld asserts that each probe is blocked in the sandbox.
func assertHeld(t *testing.T, w *world, l *lab, canary string) {
	t.Helper()
	probes, err := abuse.Probes()
	assert.NilError(t, err)
	assert.Assert(t, len(probes) >= minProbes, len(probes))
	secret, markers := newSecret(), newMarkers(t, w)
	found := probeSandbox(t, w, append(l.variables(w, secret, markers, abuseMemory, abusePids), "YRANAC="+reverse(canary)), markers, nil)
	for _, p := range probes {
		r, ok := found[p.Name]
		assert.Check(t, ok, p.Name)
		assert.Check(t, is.Equal(r.Outcome, abuse.Held), "%s: %s", p.Name, r.Why)
	}
	assert.Check(t, is.Equal(len(found), len(probes)))
	assert.Check(t, !l.packets.Contains(secret), "a packet left the engine's machine")
}

// assertProbesWork asserts that the probes succeed in an ordinary container where they should.
func assertProbesWork(t *testing.T, w *world, l *lab, canary string) {
	t.Helper()
	probes, err := abuse.Probes()
	assert.NilError(t, err)
	secret, markers := newSecret(), newMarkers(t, w)
	found := probeContainer(t, w, l, append(l.variables(w, secret, markers, abuseMemory, abusePids), "YRANAC="+reverse(canary)), markers)
	skipped := 0
	for _, p := range probes {
		r := found[p.Name]
		if p.Plain != "" {
			assert.Check(t, is.Equal(r.Outcome, p.Plain), "%s in an ordinary container: %s", p.Name, r.Why)
		}
		if r.Outcome == abuse.Skipped {
			skipped++
		}
	}
	for _, name := range brokenInContainer() {
		assert.Check(t, is.Equal(found[name].Outcome, abuse.Broke), name)
	}
	// Those are about what an ordinary container has not: a proxy, and ralph.
	assert.Check(t, is.Equal(skipped, len(slices.DeleteFunc(slices.Clone(probes), func(p abuse.Probe) bool { return p.Plain != abuse.Skipped }))))
	l.packets.WaitFor(t, secret) // or else nothing is captured
}

// setUpProbes makes the sandbox, what it shall reach and what it shall not, and the secrets
// that it must not find.
func setUpProbes(t *testing.T, w *world, program string) (l *lab, canary string) {
	t.Helper()
	canary = plantSecrets(t, w)
	w.setenv("RALPH_NETWORK", "allowlist")
	w.setenv("RALPH_ALLOW", "allowed.example,private.example")
	w.setenv("RALPH_WORKSPACE", "clone")
	w.setenv("RALPH_MEMORY", fmt.Sprint(abuseMemory, "m"))
	w.setenv("RALPH_PIDS", fmt.Sprint(abusePids))
	w.createSandbox(t)
	l = newLab(t, w, program)
	l.publish(t, w)
	return l, canary
}

// plantSecrets puts a secret everywhere an agent would look for one, and returns it.
func plantSecrets(t *testing.T, w *world) (canary string) {
	t.Helper()
	canary = "canary" + strings.ToLower(rand.Text())
	w.setenv("MY_TOKEN", canary)
	w.git(t, "config", "--global", "credential.helper", "!echo password="+canary)
	w.git(t, "remote", "set-url", "origin", "https://una:"+canary+"@git.example/"+w.slug+".git")
	w.write(t, filepath.Join(w.repo, "a.odd"), "odd\n")
	w.git(t, "add", "-A")
	w.git(t, "commit", "-qm", "odd")
	for _, file := range w.secretFiles() {
		w.write(t, file, canary)
	}
	return canary
}

// secretFiles are files of the user that a sandbox must not have. A clone lacks those that are not committed, too.
func (w *world) secretFiles() []string {
	files := []string{
		filepath.Join(w.home, ".ssh", "id_rsa"), // ssh:// needs id_ed25519
		filepath.Join(w.home, ".aws", "credentials"),
		filepath.Join(w.dir, "secret.txt"),
		filepath.Join(filepath.Dir(w.repo), "secret.txt"),
	}
	if w.hasClone() {
		files = append(files, filepath.Join(w.repo, "secret.txt"))
	}
	return files
}

func newSecret() string { return secretMark + strings.ToLower(rand.Text()[:12]) }

func reverse(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// newMarkers makes a folder in which everything that is run leaves a file.
func newMarkers(t *testing.T, w *world) string {
	t.Helper()
	dir, err := os.MkdirTemp(w.dir, "markers-")
	assert.NilError(t, err)
	assert.NilError(t, os.Chmod(dir, 0o777)) // any user may run it
	return dir
}

// probeSandbox runs the probes as an agent's work. The user uses git while they
// are there. Those probes that are named are left out.
func probeSandbox(t *testing.T, w *world, variables []string, markers string, except []string) map[string]abuse.Result {
	t.Helper()
	w.write(t, w.pathInside(t, ".ralph/run.sh"), `
cp -a .git/config .git/info .git/hooks "$HOME" 2>/dev/null
exec 3>.ralph/report 4>&2
env `+shellQuote(variables)+` .ralph/abuse run `+shellQuote(except)+` >&3
touch .ralph/planted
while ! test -e .ralph/go; do sleep 0.05; done
rm -rf .git/config .git/info .git/hooks
cp -a "$HOME/config" "$HOME/info" "$HOME/hooks" .git/ 2>/dev/null
true
`)
	w.plan(t, task{ID: "abuse", Title: "Try it all", Steps: []string{"sh .ralph/run.sh"}})
	build := start(t, w.docker("ralph", "build", "-n", "1"))
	eventually(t, func() error {
		select {
		case <-build.done:
			build.wait(t).expect(t, -1)
		default:
		}
		_, err := os.Stat(w.pathInside(t, ".ralph/planted"))
		return err
	})
	w.runUserGit(t)
	w.write(t, w.pathInside(t, ".ralph/go"), "")
	build.wait(t).expect(t, 0)
	assert.DeepEqual(t, w.statuses(t), map[string]string{"abuse": "done"})
	return parseReport(t, w.readFile(t, w.pathInside(t, ".ralph/report")), markers)
}

// probeContainer runs the probes in a container as "docker run" makes it.
func probeContainer(t *testing.T, w *world, l *lab, variables []string, markers string) map[string]abuse.Result {
	t.Helper()
	args := []string{"run", "--rm", "-v", w.repo + ":" + w.repo, "-v", l.program + ":/abuse:ro", "-w", w.repo}
	for _, name := range []string{"allowed", "blocked"} {
		args = append(args, "--add-host", name+".example:"+l.forbidden)
	}
	for _, v := range append(slices.Clone(variables), "TIMEOUT=20s") {
		args = append(args, "-e", v)
	}
	res := run(t, w.docker(append(args, engines.BaseImage(), "/abuse", "run")...)).expect(t, 0)
	w.runUserGit(t)
	return parseReport(t, res.stdout, markers)
}

// runUserGit runs git as users do in a worktree.
func (w *world) runUserGit(t *testing.T) {
	t.Helper()
	spec := filepath.Join(w.repo, "specs", "things.md")
	content, err := os.ReadFile(spec)
	assert.NilError(t, err)
	w.write(t, spec, string(content)+"\nAnd more.\n")
	for _, args := range [][]string{
		{"status"},
		{"diff", "HEAD"},
		{"log", "-p", "-2"},
		{"checkout", "-q", "main"},
		{"st"},
		{"inc"},
		{"commit-tree", "-S", "-m", "signed", "HEAD^{tree}"},
		{"branch", "--edit-description"},
		{"ls-remote", "ssh://git@127.0.0.1:9/x"},
	} {
		run(t, w.command("git", args...)) // what is planted makes some of them fail
	}
	w.write(t, spec, string(content))
}

// parseReport reads a report, and finds out what came of what was planted.
func parseReport(t *testing.T, report, markers string) map[string]abuse.Result {
	t.Helper()
	found, err := abuse.ParseResults(report)
	assert.NilError(t, err)
	for _, name := range slices.Collect(maps.Keys(found)) {
		r := found[name]
		if r.Outcome != abuse.Planted {
			continue
		}
		r.Outcome = abuse.Held
		if _, err := os.Stat(filepath.Join(markers, name)); err == nil {
			r.Outcome, r.Why = abuse.Broke, "the user's git ran it"
		}
		found[name] = r
	}
	return found
}

// shellQuote writes words for a shell.
func shellQuote(words []string) string {
	var all []string
	for _, word := range words {
		all = append(all, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
	}
	return strings.Join(all, " ")
}
