package manage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker-ralph/docker-ralph/config"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/backlogs"
	"github.com/docker-ralph/docker-ralph/lifecycle/commits"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/run"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// Activity is what a sandbox does or waits for.
type Activity string

// The activities. A running loop has one of the first five.
const (
	Working     Activity = "working"
	Checking    Activity = "checking"
	RateLimited Activity = "rate_limited"
	Retrying    Activity = "retrying"
	Waiting     Activity = "waiting"      // other loops have the remaining tasks
	NeedsAnswer Activity = "needs_answer" // nothing runs, and a question has no answer
	Failed      Activity = "failed"       // the last loop
	Ended       Activity = "ended"        // the last loop: as requested, or at a limit
	Idle        Activity = "idle"         // no loop is known
	Paused      Activity = "paused"
	Unknown     Activity = "unknown"
)

// activity derives the activity from the rest.
func (s SandboxStatus) activity() Activity {
	l := s.Loop
	switch {
	case s.State == string(lifecycle.Paused):
		return Paused
	case s.State == string(lifecycle.Unknown):
		return Unknown
	case l != nil && l.Running:
		if known := Activity(l.State); slices.Contains([]Activity{Checking, RateLimited, Retrying, Waiting}, known) {
			return known
		}
		return Working
	case len(s.Questions) > 0:
		return NeedsAnswer
	case l == nil:
		return Idle
	case l.Killed, l.ExitCode != nil && *l.ExitCode != 0 && !slices.Contains(expected, l.Stop):
		return Failed
	}
	return Ended
}

// expected are the reasons why a loop ends that are no failure: limits of the user, and requests.
var expected = []string{"max_iterations", "max_duration", "max_cost_usd", "max_tokens", "stopped", "interrupted", "question"}

// Status describes the sandbox of a worktree, nil for the current one, or an ephemeral one of it that is in use.
// Without a sandbox, its state is [lifecycle.NotFound]; the last loop can be known nevertheless.
// With fetch, commits of a loop whose command on this machine is gone are fetched first.
func Status(ctx context.Context, h host.Host, worktree *host.Worktree, fetch bool) (SandboxStatus, error) {
	l, err := located(ctx, h, worktree)
	if err != nil {
		return SandboxStatus{}, err
	}
	if fetch && commits.WasLeft(h, l.Sandbox.Name) {
		if err := commits.FetchLeft(ctx, h, l); err != nil {
			h.Warn(err)
		}
	}
	return describe(ctx, h, l, true), ctx.Err()
}

// located finds the sandbox of a worktree, nil for the current one, or an ephemeral one of it that is in use.
func located(ctx context.Context, h host.Host, worktree *host.Worktree) (l host.Located, err error) {
	wt, name, err := existingScope(ctx, h, worktree)
	if err != nil {
		return l, err
	}
	records, err := h.RecordsIn(wt)
	if err != nil {
		return l, err
	}
	for _, r := range records {
		if r.Live && r.Sandbox != name {
			name = r.Sandbox
		}
	}
	if l, err = h.LocateOrRecorded(ctx, name); err != nil {
		return l, err
	}
	theirs := l.Sandbox.OtherClient != "" && (lifecycle.Spec{Scope: wt.Scope, Root: wt.Root}).Check(l.Sandbox) != nil
	if l.Sandbox.State == lifecycle.NotFound || theirs { // this worktree's gets another name
		reportRenamed(h, wt)
		l.Sandbox = lifecycle.Sandbox{Name: name, State: lifecycle.NotFound, Scope: wt.Scope, Root: wt.Root}
		l.Backend.Kind, l.Backend.Engine = "", host.Engine{}
	}
	return l, nil
}

// reportRenamed reports the clone of the branch from before it was renamed.
func reportRenamed(h host.Host, wt gitrepo.Worktree) {
	renamed, err := run.RenamedSandboxes(h, wt)
	if err != nil {
		h.Warn(err)
	}
	for _, name := range slices.Sorted(maps.Keys(renamed)) {
		if !gitsync.IsClone(h.StateDir, name) {
			continue
		}
		was := renamed[name].Scope
		h.Warn(hint.Wrap(fmt.Errorf("the clone %s is of %s, branch %s, which is %s, branch %s, now", name, was.Repo, was.Branch, wt.Scope.Repo, wt.Scope.Branch),
			"see its loop with %q, or remove it with %q", "docker ralph logs "+name, "docker ralph clean "+name))
	}
}

// describe describes a sandbox. What cannot be found out is a warning.
func describe(ctx context.Context, h host.Host, l host.Located, current bool) SandboxStatus {
	sb := l.Sandbox
	s := SandboxStatus{
		Name: sb.Name, Repo: sb.Scope.Repo, Branch: sb.Scope.Branch, Driver: l.Backend.Kind, Agent: sb.Agent, State: string(sb.State),
		Engine: l.Backend.Engine.String(), Remote: !l.Backend.Engine.Local(),
		Worktree: sb.Root, Workspace: workspaceOf(sb), Image: sb.Image, Current: current, OtherClient: sb.OtherClient,
		Questions: []taskjson.OpenQuestion{}, Blocked: []denylog.Refusal{},
	}
	if s.OtherClient != "" { // its worktree and its logs may be on another machine
		s.Activity = Unknown
		return s
	}
	s.Logs, s.Gone = h.LogsOf(sb), host.Missing(sb.Root)
	var err error
	if s.Loop, err = loopOf(ctx, h, l); err != nil {
		err = fmt.Errorf("listing the processes of %s: %w", sb.Name, err)
	}
	if s.Loop != nil && s.Loop.ID != "" {
		s.addRuns(ctx, h, sb)
	}
	if s.Loop == nil || s.Loop.Error == "" {
		if u := commits.UnmergedOf(ctx, h, sb); u != nil { // by a command that is no loop
			s.Unmerged = termsafe.Line(u.Why)
		}
	}
	err = errors.Join(err, s.addBacklog(ctx, h, sb))
	if err != nil && ctx.Err() == nil {
		h.Warn(err)
	}
	s.Activity = s.activity()
	return s
}

// workspaceOf returns the workspace of a sandbox; empty if it is not known.
func workspaceOf(sb lifecycle.Sandbox) string {
	switch {
	case sb.Private:
		return config.WorkspaceClone
	case sb.State == lifecycle.NotFound, sb.State == lifecycle.Unknown:
		return ""
	}
	return config.WorkspaceLive
}

// addBacklog adds the questions without an answer, and the numbers of tasks.
func (s *SandboxStatus) addBacklog(ctx context.Context, h host.Host, sb lifecycle.Sandbox) error {
	store, err := backlogs.ReadOf(ctx, h, sb)
	if err != nil || store == nil {
		return err
	}
	open, err := backlogs.OpenQuestions(ctx, store)
	s.Questions = append(s.Questions, open...)
	if err == nil {
		s.Counts, err = backlogs.Counts(ctx, store)
	}
	if err == nil && s.Loop != nil {
		s.Loop.Counts = s.Counts
	}
	return errors.Join(err, store.Close())
}

// addRuns adds what the finished runs of the loop have left: blocked connections, and commits that
// the repository does not have.
func (s *SandboxStatus) addRuns(ctx context.Context, h host.Host, sb lifecycle.Sandbox) {
	log, err := runlog.Find(h.LogsOf(sb), func(l runlog.Loop) bool { return l.ID == s.Loop.ID })
	if err != nil {
		return
	}
	defer log.Close()
	runs := log.Iterations()
	for _, run := range runs {
		s.addBlocked(run.Refused)
		if run.Started.Before(log.Loop.Resumed) {
			s.Loop.EarlierSeconds += max(0, run.Seconds)
		}
	}
	unfetched := 0
	if sb.Private && !s.Gone {
		if unfetched, err = missingCommits(ctx, sb.Root, runs); err != nil {
			return
		}
	}
	s.Unfetched = &unfetched
}

// blockedMax limits the blocked hosts of a loop.
const blockedMax = 50

func (s *SandboxStatus) addBlocked(more []denylog.Refusal) {
	for _, r := range more {
		same := func(other denylog.Refusal) bool { return other.Target() == r.Target() }
		if i := slices.IndexFunc(s.Blocked, same); i >= 0 {
			s.Blocked[i].Times += max(0, r.Times)
		} else if r.Valid() && len(s.Blocked) < blockedMax {
			s.Blocked = append(s.Blocked, r)
		}
	}
}

// missingCommits counts the commits of runs that the repository of a worktree does not have.
func missingCommits(ctx context.Context, root string, runs []runlog.Iteration) (missing int, err error) {
	var asked []runlog.Iteration
	var input strings.Builder
	for _, run := range runs {
		if run.Commits > 0 && isObjectID(run.Commit) {
			asked = append(asked, run)
			input.WriteString(run.Commit + "\n")
		}
	}
	if len(asked) == 0 {
		return 0, nil
	}
	git, err := gitrepo.NewGit(root)
	if err != nil {
		return 0, err
	}
	var out bytes.Buffer
	if err := git.Stream(ctx, strings.NewReader(input.String()), &out, "cat-file", "--batch-check=%(objecttype)"); err != nil {
		return 0, err
	}
	answers := strings.Split(out.String(), "\n")
	if len(answers) <= len(asked) {
		return 0, errors.New("unexpected output of git cat-file")
	}
	for i, run := range asked {
		if strings.HasSuffix(answers[i], " missing") {
			missing += run.Commits
		}
	}
	return missing, nil
}

// isObjectID reports whether a text, which an agent can have written, is an object ID of git.
func isObjectID(id string) bool {
	return (len(id) == 40 || len(id) == 64) && strings.Trim(id, "0123456789abcdef") == ""
}
