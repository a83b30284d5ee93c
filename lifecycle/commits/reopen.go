package commits

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/wire"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// ReopenUnmerged makes tasks open again whose commits stay behind when their sandbox is removed:
// the next sandbox starts from the user's branch, and nothing else would do them. The commits that
// were fetched keep their ref.
func ReopenUnmerged(ctx context.Context, h host.Host, driver lifecycle.Driver, sb lifecycle.Sandbox) {
	u := UnmergedOf(ctx, h, sb)
	if u == nil {
		return
	}
	where := "lost with the sandbox " + sb.Name
	if u.Ref != "" {
		where = "at " + u.Ref
		h.Report(fmt.Sprintf("Commits that are not on your branch %s stay at %s", u.Branch, u.Ref))
	}
	tasks, err := doneIn(ctx, driver, sb)
	if err == nil {
		tasks, err = finishedBy(ctx, h, sb, u.Branch, tasks)
	}
	var reopened []string
	for _, id := range tasks {
		if err == nil {
			err = taskCommand(ctx, driver, sb, io.Discard, "reopen", id, "--reason", fmt.Sprintf("its commits are not on the branch %s, but %s", u.Branch, where))
		}
		if err == nil {
			reopened = append(reopened, termsafe.Line(id))
		}
	}
	if len(reopened) > 0 {
		h.Report(fmt.Sprintf("Reopened %s, whose commits are not on your branch %s: %s", host.Count(len(reopened), "task"), u.Branch, strings.Join(reopened, ", ")))
	}
	if err != nil {
		h.Warn(fmt.Errorf("reopening tasks whose commits are not on your branch %s: %w", u.Branch, err))
	}
}

// doneIn returns the tasks of a backlog that are done.
func doneIn(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox) ([]string, error) {
	const listMax = 16 << 20
	var out bytes.Buffer
	if err := taskCommand(ctx, driver, sb, &lifecycle.Limited{To: &out, Left: listMax}, "list", "--status", "done", "--format", "json"); err != nil {
		return nil, err
	}
	var tasks []taskjson.Task
	if err := json.Unmarshal(out.Bytes(), &tasks); err != nil {
		return nil, fmt.Errorf("parsing the list of tasks: %w", err)
	}
	var ids []string
	for _, t := range tasks {
		ids = append(ids, t.ID)
	}
	return ids, nil
}

// finishedBy returns those of some tasks that were finished by runs whose commits a branch lacks.
func finishedBy(ctx context.Context, h host.Host, sb lifecycle.Sandbox, branch string, tasks []string) (found []string, err error) {
	for _, loop := range runlog.Recent(sb.Root, followedLoops, func(l runlog.Loop) bool { return l.Branch == sb.Scope.Branch }) {
		log, err := runlog.Find(sb.Root, func(l runlog.Loop) bool { return l.ID == loop.ID && l.Branch == sb.Scope.Branch })
		if err != nil {
			continue // pruned meanwhile, or of another branch
		}
		runs := log.Iterations()
		log.Close()
		for _, run := range runs {
			done := slices.DeleteFunc(slices.Clone(run.Done), func(id string) bool { return !slices.Contains(tasks, id) || slices.Contains(found, id) })
			if len(done) == 0 || run.Commits == 0 {
				continue
			}
			lacks, err := lacks(ctx, h, sb, branch, run.Commit)
			if err != nil {
				return nil, err
			}
			if lacks {
				found = append(found, done...)
			}
		}
	}
	return found, nil
}

func taskCommand(ctx context.Context, driver lifecycle.Driver, sb lifecycle.Sandbox, stdout io.Writer, args ...string) error {
	return lifecycle.RunService(ctx, driver, sb, nil, stdout, append([]string{wire.Program, host.TaskCommand}, args...)...)
}
