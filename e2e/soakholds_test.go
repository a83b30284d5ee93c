//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// holds is what has to hold whatever has happened.
func (s *soak) holds() {
	t, w := s.t, s.w
	t.Helper()
	backlog := s.backlog()
	assert.Check(t, is.Len(backlog, len(s.tasks)))
	log := s.readLogs()
	onBranch := strings.Fields(w.git(t, "rev-list", "main"))
	// What a killed agent has left can be in the commit of another task.
	assert.Check(t, len(onBranch) <= 2+len(s.tasks), "%d commits on the branch", len(onBranch))
	for _, tk := range s.tasks {
		id := tk.ID
		assert.Check(t, is.Equal(backlog[id].Status, "done"), id)
		assert.Check(t, is.Len(strings.Fields(w.git(t, "rev-list", "main", "--", id)), 1), "commits of %s", id)
		if commit := backlog[id].commit(t); commit != "" { // another run has made it otherwise
			assert.Check(t, slices.Contains(onBranch, commit), "%s has the commit %s, which is not on the branch", id, commit)
		}
		n := log.done[id]
		known := n > 0 || log.died[backlog[id].Assignee]
		assert.Check(t, known, "no log says that %s is done, which agent %s did", id, backlog[id].Assignee)
		assert.Check(t, n <= 1+s.restores, "%s is done %d times by the logs, with %d restores", id, n, s.restores)
	}
	aside, _ := os.ReadFile(filepath.Join(s.cache, "aside"))
	for _, file := range strings.Fields(string(aside)) {
		assert.Check(t, w.git(t, "rev-list", "--all", "--", file) != "", "the commit of %s is lost", file)
	}
	assert.Check(t, is.Equal(w.git(t, "status", "--porcelain"), ""))
	assert.Check(t, is.Equal(w.git(t, "rev-parse", "--abbrev-ref", "HEAD"), "main"))
	w.atRest(t)
	said := strings.Join(s.notes, "\n")
	for _, never := range []string{`"docker rm `, `"docker volume rm `, "panic: ", "goroutine "} {
		assert.Check(t, !strings.Contains(said, never), never)
	}
}

// soakedTask is a row of the backlog.
type soakedTask struct {
	Slug, Status, Assignee, Result string
}

// commit is the commit that the task's result names.
func (k soakedTask) commit(t assert.TestingT) string {
	if k.Result == "" {
		return ""
	}
	var named struct{ Commit string }
	assert.Check(t, json.Unmarshal([]byte(k.Result), &named), k.Slug)
	return named.Commit
}

// backlog reads the whole backlog.
func (s *soak) backlog() map[string]soakedTask {
	s.t.Helper()
	var content struct{ Tasks []soakedTask }
	assert.NilError(s.t, json.Unmarshal([]byte(s.w.ok(s.t, "task", "_export")), &content))
	all := map[string]soakedTask{}
	for _, k := range content.Tasks {
		all[k.Slug] = k
	}
	return all
}

// soakedLog is what all logs say together.
type soakedLog struct {
	done map[string]int  // by task: in how many runs it was done
	died map[string]bool // agents whose loop was killed, so that its last run is in no log
}

// readLogs reads the logs in the worktree, and those that were removed from it.
func (s *soak) readLogs() soakedLog {
	s.t.Helper()
	log := soakedLog{map[string]int{}, map[string]bool{}}
	seen := map[time.Time]bool{}
	for _, at := range []string{filepath.Join(s.w.repo, ".ralph", "logs"), filepath.Join(s.cache, "saved"), filepath.Join(s.w.dir, "removed-*", "logs")} {
		loops, err := filepath.Glob(filepath.Join(at, "*-build*"))
		assert.NilError(s.t, err)
		for _, dir := range loops {
			var loop struct {
				AgentID string `json:"agent_id"`
				Ended   time.Time
			}
			about, _ := os.ReadFile(filepath.Join(dir, "loop.json")) // it may have been killed before it wrote that
			_ = json.Unmarshal(about, &loop)
			if loop.Ended.IsZero() {
				log.died[loop.AgentID] = true
			}
			lines, _ := os.ReadFile(filepath.Join(dir, "iterations.jsonl")) // it may have none
			for line := range strings.Lines(string(lines)) {
				var run struct {
					Done    []string
					Started time.Time
				}
				if json.Unmarshal([]byte(line), &run) != nil || seen[run.Started] {
					continue // half of it is written, or another copy has it
				}
				seen[run.Started] = true
				for _, id := range run.Done {
					log.done[id]++
				}
			}
		}
	}
	return log
}
