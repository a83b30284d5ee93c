package task

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/icmd"
)

func newRepo(t *testing.T) string {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	t.Setenv("GORACE", noExitPause)
	dir := t.TempDir()
	icmd.RunCommand("git", "init", "-q", "-b", "main", dir).Assert(t, icmd.Success)
	icmd.RunCommand("git", "-C", dir, "remote", "add", "origin", "https://github.com/acme/shop.git").Assert(t, icmd.Success)
	return dir
}

type outcome struct {
	stdout, stderr string
	code           int
}

// together starts n processes with the same "ralph task" command and waits for all.
func together(t *testing.T, n int, dir, stdin string, args ...string) []outcome {
	t.Helper()
	cmds := make([]*exec.Cmd, n)
	for i := range cmds {
		// testscript.Main has put the program on PATH.
		cmds[i] = exec.CommandContext(t.Context(), "ralph", append([]string{"task"}, args...)...)
		cmds[i].Dir = dir
		cmds[i].Stdin = strings.NewReader(stdin)
		cmds[i].Stdout, cmds[i].Stderr = &bytes.Buffer{}, &bytes.Buffer{}
		assert.NilError(t, cmds[i].Start())
	}
	outcomes := make([]outcome, n)
	for i, cmd := range cmds {
		_ = cmd.Wait() // the exit code is checked
		outcomes[i] = outcome{cmd.Stdout.(*bytes.Buffer).String(), cmd.Stderr.(*bytes.Buffer).String(), cmd.ProcessState.ExitCode()}
	}
	slices.SortFunc(outcomes, func(a, b outcome) int { return strings.Compare(a.stdout, b.stdout) })
	return outcomes
}

func ralphTask(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out := together(t, 1, dir, "", args...)[0]
	assert.Equal(t, out.code, 0, out.stderr)
	return out.stdout
}

// Neither directory nor database exists before.
func TestParallelRegister(t *testing.T) {
	ids := map[string]bool{}
	for _, out := range together(t, 6, newRepo(t), "", "agent", "register") {
		assert.Equal(t, out.code, 0)
		assert.Equal(t, out.stderr, "")
		assert.Assert(t, regexp.MustCompile(`^[0-9a-f]{4}\n$`).MatchString(out.stdout), out.stdout)
		ids[out.stdout] = true
	}
	assert.Equal(t, len(ids), 6)
}

func TestParallelClaimsOfOneTask(t *testing.T) {
	dir := newRepo(t)
	ralphTask(t, dir, "create", "only", "Only")
	out := together(t, 5, dir, "", "claim", "only")
	for _, loser := range out[:4] {
		assert.Equal(t, loser, outcome{stderr: "Task not eligible\n", code: 2})
	}
	assert.Equal(t, out[4].code, 0)
	assert.Assert(t, strings.HasPrefix(out[4].stdout, "## Task only\nid: only\n"))
	assert.Assert(t, strings.Contains(ralphTask(t, dir, "list", "--markdown"), "status: active\n"))
}

func TestParallelClaimsOfTwoTasks(t *testing.T) {
	dir := newRepo(t)
	ralphTask(t, dir, "create", "one", "One")
	ralphTask(t, dir, "create", "two", "Two")
	out := together(t, 3, dir, "", "claim")
	assert.Equal(t, out[0], outcome{stderr: "No eligible tasks\n", code: 2})
	assert.Assert(t, strings.HasPrefix(out[1].stdout, "## Task one\n"))
	assert.Assert(t, strings.HasPrefix(out[2].stdout, "## Task two\n"))
}

func TestParallelPlanSyncs(t *testing.T) {
	dir := newRepo(t)
	plan := `{"id":"a","t":"A","spec":"s.md","deps":["b"]}` + "\n" + `{"id":"b","t":"B","spec":"s.md"}`
	out := together(t, 4, dir, plan, "plan-sync")
	for _, second := range out[:3] {
		assert.Equal(t, second, outcome{stdout: "inserted: 0, updated: 0, deleted: 0, skipped (done): 0\n"})
	}
	assert.Equal(t, out[3], outcome{stdout: "inserted: 2, updated: 0, deleted: 0, skipped (done): 0\n"})
	assert.Equal(t, ralphTask(t, dir, "plan-status"), "1 open, 0 active, 0 done, 1 blocked, 0 deleted\n")
}

func TestParallelWorkersClaimEachTaskOnce(t *testing.T) {
	const workers, tasks = 8, 40
	dir := newRepo(t)
	var plan strings.Builder
	for i := range tasks {
		_, _ = fmt.Fprintf(&plan, "{\"id\":\"t/%d\",\"t\":\"T\"}\n", i)
	}
	assert.Equal(t, together(t, 1, dir, plan.String(), "plan-sync")[0].code, 0)
	claimed := make(chan []string, workers)
	for range workers {
		go func() {
			var mine []string
			for {
				cmd := exec.CommandContext(t.Context(), "ralph", "task", "claim")
				cmd.Dir = dir
				out, err := cmd.Output()
				if err != nil { // the last line is the reason
					var exit *exec.ExitError
					if errors.As(err, &exit) {
						mine = append(mine, fmt.Sprint(exit.ExitCode(), " ", string(exit.Stderr)))
					}
					claimed <- mine
					return
				}
				_, rest, _ := strings.Cut(string(out), "\nid: ")
				slug, _, _ := strings.Cut(rest, "\n")
				mine = append(mine, slug)
			}
		}()
	}
	counts := map[string]int{}
	for range workers {
		for _, slug := range <-claimed {
			counts[slug]++
		}
	}
	assert.Equal(t, counts["2 No eligible tasks\n"], workers, "%v", counts)
	delete(counts, "2 No eligible tasks\n")
	assert.Equal(t, len(counts), tasks)
	for slug, n := range counts {
		assert.Equal(t, n, 1, slug)
	}
}
