package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/cli/cli/config"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// loops returns the host of the machine's commands, and the names of the scopes of two branches, which have logs of
// loops that have ended.
func (m *machine) loops() (h host.Host, scopes, loops [2]string) {
	m.t.Helper()
	h = host.Host{StateDir: filepath.Join(config.Dir(), "ralph")}
	wt, err := gitrepo.Detect(m.t.Context(), m.root, func(string) string { return "" })
	assert.NilError(m.t, err)
	cost := 1.5
	for i, branch := range []string{"main", "removed"} {
		wt.Scope.Branch = branch
		scopes[i], err = h.SandboxName(wt)
		assert.NilError(m.t, err)
		assert.NilError(m.t, h.SaveOwner(scopes[i], host.OwnerOf(wt)))
		log, err := runlog.Create(h.LogsDir(scopes[i]), runlog.Loop{
			Mode: "build", Repo: wt.Scope.Repo, Branch: branch, Agent: "shell", Started: time.Date(2031, 2, 3, 4, 5, i, 0, time.UTC),
		})
		assert.NilError(m.t, err)
		_, err = log.Output(1).Write([]byte("output of " + branch + "\n"))
		assert.NilError(m.t, err)
		assert.NilError(m.t, log.Emit(&runlog.TaskChange{N: 1, ID: "a", Title: "x\u009b31my", Status: "done"}))
		assert.NilError(m.t, log.Append(runlog.Iteration{N: 1, CostUSD: &cost, Started: time.Now()}))
		assert.NilError(m.t, log.Finish(runlog.LoopEnd{Stop: "stall", ExitCode: 7}))
		loops[i] = log.Loop.ID
	}
	return h, scopes, loops
}

func TestLogsNeedNoEngine(t *testing.T) {
	m := newMachine(t)
	_, scopes, loops := m.loops()
	for _, tc := range []struct {
		args   string
		code   int
		stdout string // contains these, separated by " … "
		stderr string
	}{
		{args: "logs", stdout: "output of main\n"},
		{args: "logs " + scopes[1], stdout: "output of removed\n"},
		{args: "logs --loop " + loops[1], stdout: "output of removed\n"},
		{args: "logs -f", code: 7, stdout: "output of main\n"},
		{args: "logs --loop missing", code: 1, stderr: `no log of a loop "missing"`},
		{args: "events", stdout: `"type":"task" … "title":"x\u009b31my" … "type":"run.end" … "type":"loop.end"`},
		{args: "events --follow", code: 7, stdout: `"type":"loop.end"`},
		{args: "events " + scopes[1] + " --loop " + loops[1], stdout: `"type":"loop.end"`},
		{args: "events --loop missing", code: 1, stderr: `no log of a loop "missing"`},
		{args: "ls --loops --quiet", stdout: loops[1] + "\n … " + loops[0] + "\n"},
		{args: "ls --loops --format {{.Branch}}={{.Status}}", stdout: "removed=stall\n … main=stall\n"},
		{args: "cost --format {{.Branch}}={{.Cost}}", stdout: "main=$1.50\n … removed=$1.50\n"},
		{args: "status --format json", stdout: `"stop": "stall"`},
		{args: "__complete logs --loop ", stdout: loops[1] + "\tremoved … " + loops[0] + "\tmain"},
		{args: "__complete events --loop ", stdout: loops[0]},
	} {
		t.Run(tc.args, func(t *testing.T) {
			args := strings.Split(tc.args, " ")
			code, stdout, stderr := m.ralph("", args...)
			assert.Check(t, is.Equal(code, tc.code), "%s%s", stdout, stderr)
			rest := stdout
			for part := range strings.SplitSeq(tc.stdout, " … ") {
				_, after, found := strings.Cut(rest, part)
				assert.Check(t, found, "%q is missing in %q", part, stdout)
				rest = after
			}
			assert.Check(t, is.Contains(stderr, tc.stderr))
			assert.Check(t, args[0] == "status" || !strings.Contains(stderr, "no.sock"), stderr) // which warns
		})
	}
	_, err := os.Stat(filepath.Join(m.root, ".ralph"))
	assert.Assert(t, os.IsNotExist(err))
}
