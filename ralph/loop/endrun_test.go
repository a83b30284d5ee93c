package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/poll"

	"github.com/docker-ralph/docker-ralph/hint"
	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/session"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// commit commits a file of that name.
func commit(name string) string {
	return fmt.Sprintf("echo %[1]s > %[1]s.txt; git add %[1]s.txt; git commit -q -m %[1]s; ", name)
}

func finished(task string) string { return "touch $BACKLOG/" + task + "; " }

// refuse refuses the first n runs.
func refuse(n int) func(session.EndOfRun) (session.Verdict, error) {
	return func(session.EndOfRun) (v session.Verdict, err error) {
		if n--; n >= 0 {
			v.Refused = "a submodule"
		}
		return v, nil
	}
}

func TestTakenRunIsDone(t *testing.T) {
	g := newGatedLoop(t, []string{"a"}, commit("1")+finished("a"))
	g.Checks = []string{"test -e 1.txt"}
	report, err := Run(t.Context(), g.Options)
	assert.NilError(t, err, g.out.String())
	assert.DeepEqual(t, outcomes(report), []string{"done a"})
	assert.Equal(t, g.backlog.tasks["a"].Status, statusDone)
	head := g.git("rev-parse", "HEAD")
	assert.Equal(t, report.Iterations[0].Commit, head)
	ended := g.backlog.ended
	assert.Equal(t, len(ended), 1)
	assert.DeepEqual(t, ended[0].Tasks, []string{"a"})
	assert.DeepEqual(t, []string{ended[0].Agent, ended[0].Commit}, []string{"3c9e", head})
	assert.Equal(t, ended[0].Run.N, 1)
	assert.Equal(t, ended[0].Run.Outcome, outcomeDone)
	assert.Equal(t, ended[0].Run.Checks[0].Command, "test -e 1.txt")
	assert.Equal(t, len(g.Attempts.List(t.Context())), 0)
}

// The next agent gets the reason and the commits.
func TestRefusedRunIsRepaired(t *testing.T) {
	const ref = "refs/ralph/refused/a/1"
	g := newGatedLoop(t, []string{"a"}, commit("1")+"echo left > left; "+finished("a"), "git cherry-pick --no-commit HEAD.."+ref+"; git rm -qf left; git commit -qm again; "+finished("a"))
	g.backlog.answer = refuse(1)
	report, err := Run(t.Context(), g.Options)
	assert.NilError(t, err, g.out.String()+g.errs.String())
	assert.DeepEqual(t, outcomes(report), []string{"refused a", "done a"})
	first := report.Iterations[0]
	assert.DeepEqual(t, []string{first.Reason, first.Attempt, first.Commit}, []string{"a submodule", ref, ""})
	assert.DeepEqual(t, g.backlog.notes, []string{"reopen a: a submodule"})
	note := (*g.notes)[1]
	assert.Check(t, cmp.Contains(note, "The task a was finished before and is open again, because its commits were refused. Fix that first.\n\na submodule\n"))
	assert.Check(t, cmp.Contains(note, "- `a`: `"+ref+"`\n"))
	assert.Equal(t, g.git("log", "--format=%s"), "again\nstart")
	assert.Equal(t, g.git("ls-files"), "1.txt")
	assert.Equal(t, g.git("ls-tree", "--name-only", ref), "1.txt\nleft")
	out := g.out.String()
	assert.Check(t, cmp.Contains(out, "Not accepted: 1 commit and 1 change, now at "+ref+"\nReset the branch to "+g.start[:7]+"\n"))
	assert.Check(t, cmp.Contains(out, "Iteration 1: refused a | "))
	assert.Check(t, cmp.Contains(out, " | reason: a submodule\n"))
	assert.Check(t, cmp.Contains(out, "1 task done, 1 failed"))
	assert.Check(t, cmp.Contains(g.errs.String(), "Warning: the commits of the run were refused: a submodule\n"))
}

func TestTaskThatIsRefusedAgainAndAgainIsBlocked(t *testing.T) {
	again := commit("a") + finished("a")
	g := newGatedLoop(t, []string{"a", "b"}, again, again, again, commit("b")+finished("b"))
	g.backlog.answer = refuse(3)
	report, err := Run(t.Context(), g.Options)
	assert.ErrorContains(t, err, "unfinished tasks: a")
	assert.Equal(t, report.Stop, Unfinished)
	assert.DeepEqual(t, outcomes(report), []string{"refused a", "refused a", "refused a", "done b"})
	assert.Equal(t, g.backlog.tasks["a"].Status, statusBlocked)
	assert.Equal(t, g.git("ls-files"), "b.txt")
	assert.Equal(t, g.git("for-each-ref", "--format=%(refname)", "refs/ralph"), "refs/ralph/refused/a/1\nrefs/ralph/refused/a/2\nrefs/ralph/refused/a/3")
}

// What a run has committed without being accepted is not on the branch, and the next agent finds it.
func TestRunThatIsNotAcceptedStartsOver(t *testing.T) {
	for _, tc := range []struct {
		name, first string
		set         func(*gitLoop)
		outcome     string
		forgiven    bool
	}{
		{name: "checks failed", first: finished("a"), set: func(g *gitLoop) { g.Checks = []string{"test ! -e 1.txt"} }, outcome: outcomeUnchecked},
		{name: "released", set: func(g *gitLoop) { g.backlog.held = []string{"a"} }, outcome: outcomeReleased},
		{name: "failed", first: "exit 1", set: func(g *gitLoop) { g.backlog.held = []string{"a"} }, outcome: outcomeFailed},
		{name: "asked", first: "touch $BACKLOG/a.ask", outcome: outcomeQuestion},
		{name: "out of time", first: "sleep 100", set: func(g *gitLoop) { g.backlog.held, g.Timeout = []string{"a"}, time.Second }, outcome: outcomeTimedOut},
		{
			name: "overtaken", first: "touch $DIR/left; sleep 100", outcome: outcomeOvertaken,
			set: func(g *gitLoop) {
				g.Backlog = &overtakenBacklog{fileBacklog: g.backlog, file: filepath.Join(g.dir(), "left")}
			},
		},
		{
			name: "not taken in time", first: finished("a"), outcome: outcomeReleased, forgiven: true,
			set: func(g *gitLoop) {
				g.backlog.answer = func(session.EndOfRun) (session.Verdict, error) {
					return session.Verdict{}, errors.New("it is malformed")
				}
			},
		},
		{
			name: "git fails", first: finished("a"), outcome: outcomeFailed,
			set: func(g *gitLoop) {
				restore := g.Restore
				g.Restore = func(ctx context.Context) ([]string, error) {
					if len(*g.notes) == 0 {
						return restore(ctx)
					}
					return nil, errors.New("git is broken")
				}
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGatedLoop(t, []string{"a", "b"}, commit("1")+"echo left > left; "+tc.first, "true")
			g.Bounds.MaxFailures = 0
			if tc.set != nil {
				tc.set(g)
			}
			report, _ := Run(t.Context(), g.Options)
			first := report.Iterations[0]
			assert.DeepEqual(t, outcomes(report)[0], tc.outcome+" a")
			assert.Equal(t, len(g.backlog.forgiven) > 0, tc.forgiven)
			if tc.name == "git fails" {
				assert.Equal(t, report.Stop, NoGit)
				assert.Equal(t, len(g.backlog.ended), 0)
				return
			}
			assert.Equal(t, g.git("rev-parse", "HEAD"), g.start, g.out.String()+g.errs.String())
			assert.Equal(t, g.git("status", "--porcelain"), "")
			assert.Check(t, cmp.Regexp("^refs/heads/ralph-attempts/a/[12]$", first.Attempt))
			assert.Equal(t, first.Commit, "")
			assert.Equal(t, g.git("diff", "--name-only", "HEAD", first.Attempt), "1.txt\nleft")
			assert.Equal(t, g.git("rev-list", "--count", "HEAD.."+first.Attempt), "2")
			assert.Equal(t, report.Totals.Commits, 0)
			if tc.name == "not taken in time" {
				assert.Equal(t, report.Stop, Failed)
				return
			}
			assert.Equal(t, len(g.backlog.ended), 0)
			assert.Equal(t, strings.Contains((*g.notes)[1], "- `a`: `"+first.Attempt+"`\n"), tc.outcome != outcomeQuestion, (*g.notes)[1])
		})
	}
}

// overtakenBacklog is a backlog whose task another agent claims once a file exists, in the first run.
type overtakenBacklog struct {
	*fileBacklog
	runs int
	file string
}

func (b *overtakenBacklog) BeginRun(context.Context, string) error {
	b.runs++
	return nil
}

func (b *overtakenBacklog) Overtaken(context.Context, string) ([]string, error) {
	if _, err := os.Stat(b.file); err == nil && b.runs == 1 {
		return []string{"a"}, nil
	}
	return nil, nil
}

func TestInterruptedRunStartsOver(t *testing.T) {
	g := newGatedLoop(t, []string{"a"}, commit("1")+finished("a")+"trap '' INT TERM; touch $DIR/ready; while :; do sleep 0.05; done")
	g.Checks = []string{"true"}
	done := make(chan Report)
	go func() {
		report, err := Run(t.Context(), g.Options)
		assert.Check(t, err)
		done <- report
	}()
	poll.WaitOn(t, poll.FileExists(filepath.Join(g.dir(), "ready")))
	g.signals <- os.Interrupt
	g.signals <- os.Interrupt
	report := <-done
	assert.Equal(t, report.Stop, Interrupted)
	assert.DeepEqual(t, outcomes(report), []string{"interrupted a"})
	assert.Equal(t, report.Iterations[0].Attempt, "refs/heads/ralph-attempts/a/1")
	assert.Equal(t, g.git("rev-parse", "HEAD"), g.start)
	assert.DeepEqual(t, g.backlog.forgiven, []string{"a"})
}

// Runs without tasks: those of own prompts, and plans.
func TestRunWithoutATask(t *testing.T) {
	for _, tc := range []struct {
		name    string
		mode    agent.Mode
		script  string
		check   string
		answer  func(session.EndOfRun) (session.Verdict, error)
		taken   bool
		outcome string
		attempt string
		stop    Stop
		err     string
	}{
		{name: "checked", script: commit("1"), check: "test -e 1.txt", taken: true, outcome: outcomeNothing, stop: LimitReached},
		{name: "check failed", script: commit("1"), check: "false", outcome: outcomeUnchecked, attempt: "refs/heads/ralph-attempts/run/1", stop: Unfinished, err: `the commits of the last run were not accepted: check "false" failed with exit code 1`},
		{name: "refused", script: commit("1"), answer: refuse(1), taken: true, outcome: outcomeRefused, attempt: "refs/ralph/refused/run/1", stop: Unfinished, err: "the commits of the last run were not accepted: a submodule"},
		{name: "failed", script: commit("1") + "exit 3", outcome: outcomeFailed, attempt: "refs/heads/ralph-attempts/run/1", stop: RunFailed, err: "exited with code 3"},
		{name: "no commit", script: "true", outcome: outcomeNothing, stop: LimitReached},
		{name: "plan", mode: agent.Plan, script: commit("1") + "echo x > draft", check: "false", taken: true, outcome: outcomeEnded, stop: LimitReached},
		{name: "failed plan", mode: agent.Plan, script: commit("1") + "echo x > draft; exit 3", outcome: outcomeFailed, attempt: "refs/heads/ralph-attempts/run/1", stop: RunFailed, err: "exited with code 3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGatedLoop(t, []string{"a"}, tc.script)
			if tc.check != "" {
				g.Checks = []string{tc.check}
			}
			if tc.mode == agent.Plan {
				g.Session.Mode, g.AgentID = tc.mode, ""
			}
			g.backlog.answer = tc.answer
			report, err := Run(t.Context(), g.Options)
			if tc.err == "" {
				assert.NilError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.err)
			}
			assert.Equal(t, report.Stop, tc.stop)
			assert.Equal(t, len(g.backlog.ended) > 0, tc.taken)
			it := report.Iterations[0]
			assert.DeepEqual(t, []string{it.Outcome, it.Attempt}, []string{tc.outcome, tc.attempt})
			if len(it.Checks) > 0 {
				assert.Equal(t, it.Checks[0].ExitCode != 0, tc.outcome == outcomeUnchecked)
			}
			head := g.git("rev-parse", "HEAD")
			assert.Equal(t, head != g.start, tc.taken && tc.attempt == "")
			assert.Equal(t, it.Commit != "", head != g.start)
			if tc.mode == agent.Plan {
				assert.Equal(t, g.git("status", "--porcelain"), "?? draft", "a plan's files stay")
			}
		})
	}
}

func TestNextAgentFindsCommitsWithoutATask(t *testing.T) {
	g := newGatedLoop(t, []string{"a"}, commit("1"), commit("2"))
	g.Checks = []string{"! ls *.txt"}
	_, err := Run(t.Context(), g.Options)
	assert.ErrorContains(t, err, "the commits of the last run")
	assert.Check(t, cmp.Contains((*g.notes)[1], "The commits of the session before are no longer on the branch, because a check failed:\n\ncheck "))
	assert.Check(t, cmp.Contains((*g.notes)[1], "- without a task: `refs/heads/ralph-attempts/run/1`\n"))
}

// Agents without tasks whose commits are never accepted do not run forever.
func TestRejectedRunsWithoutTasksStall(t *testing.T) {
	g := newGatedLoop(t, []string{"a"}, commit("1"), commit("2"), commit("3"), commit("4"))
	g.MaxIterations, g.backlog.answer = 0, refuse(9)
	report, _ := Run(t.Context(), g.Options)
	assert.Equal(t, report.Stop, Stalled)
	assert.Equal(t, len(report.Iterations), 3)
}

func TestHostEndsTheLoop(t *testing.T) {
	g := newGatedLoop(t, []string{"a", "b"}, commit("1")+finished("a"), commit("2")+finished("b"))
	g.backlog.answer = func(session.EndOfRun) (session.Verdict, error) {
		return session.Verdict{Finish: "the branch has diverged"}, nil
	}
	report, err := Run(t.Context(), g.Options)
	assert.NilError(t, err)
	assert.Equal(t, report.Stop, Stopped)
	assert.DeepEqual(t, outcomes(report), []string{"done a"})
	assert.Check(t, cmp.Contains(g.errs.String(), "Warning: the loop stops after this run: the branch has diverged\n"))
	assert.Check(t, cmp.Contains(g.out.String(), "Stopped. Exiting loop.\n"))
}

// A full disk of the host is neither the agent's fault nor a reason to run it again.
func TestHostThatCannotTakeIsAskedAgain(t *testing.T) {
	full := hint.Wrap(fmt.Errorf("%w: no space left", session.ErrEnvironment), "free some disk space")
	for _, tc := range []struct {
		name     string
		failures int
		maxWait  time.Duration
		stop     Stop
		err      string
		ended    int
	}{
		{"later", 2, time.Hour, Complete, "", 3},
		{"too long", 9, 25 * time.Millisecond, Failed, "the host cannot take the commits of the run, for longer than max_wait (25ms): the host could not end the run: no space left", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGatedLoop(t, []string{"a"}, commit("1")+finished("a"))
			g.timing.outage, g.Bounds.MaxWait = 10*time.Millisecond, tc.maxWait
			g.backlog.answer = func(session.EndOfRun) (session.Verdict, error) {
				if len(g.backlog.ended) <= tc.failures {
					return session.Verdict{}, full
				}
				return session.Verdict{}, nil
			}
			logs := t.TempDir()
			log, err := runlog.Create(logs, runlog.Loop{Mode: "build"})
			assert.NilError(t, err)
			g.Log = log
			report, err := Run(t.Context(), g.Options)
			assert.Equal(t, report.Stop, tc.stop)
			assert.Equal(t, len(g.backlog.ended), tc.ended)
			assert.Equal(t, len(*g.notes), 1, "the agent runs once")
			assert.Check(t, cmp.Contains(g.errs.String(), "Warning: the host cannot take the commits of the run: the host could not end the run: no space left; asking again in 10ms\n"))
			events, readErr := os.ReadFile(filepath.Join(logs, log.Loop.ID, "events.jsonl"))
			assert.NilError(t, readErr)
			assert.Check(t, cmp.Contains(string(events), `"state":"waiting","until":`))
			if tc.err == "" {
				assert.NilError(t, err)
				assert.Equal(t, len(g.backlog.notes)+len(g.backlog.forgiven), 0)
				return
			}
			assert.Error(t, err, tc.err)
			assert.DeepEqual(t, hint.Of(err), []string{"start the loop again later, or raise max_wait", "free some disk space"})
			assert.DeepEqual(t, g.backlog.forgiven, []string{"a"})
		})
	}
}

func TestSignalEndsTheWaitForTheHost(t *testing.T) {
	g := newGatedLoop(t, []string{"a"}, commit("1")+finished("a"))
	finish := make(chan os.Signal, 1)
	g.Finish, g.timing.outage = finish, time.Hour
	asked := make(chan struct{}, 3)
	g.backlog.answer = func(session.EndOfRun) (session.Verdict, error) {
		asked <- struct{}{}
		return session.Verdict{}, session.ErrEnvironment
	}
	done := make(chan Report)
	go func() {
		report, err := Run(t.Context(), g.Options)
		assert.Check(t, err)
		done <- report
	}()
	<-asked
	finish <- os.Interrupt // after this run, which has not ended
	<-asked
	g.signals <- os.Interrupt
	report := <-done
	assert.Equal(t, report.Stop, Interrupted)
	assert.DeepEqual(t, outcomes(report), []string{"released a"})
	assert.DeepEqual(t, g.backlog.notes, []string{"reopen a: the host could not take its commits"})
	assert.DeepEqual(t, g.backlog.forgiven, []string{"a"})
	assert.Equal(t, g.git("rev-parse", "HEAD"), g.start)
}

// pushingBacklog is a backlog whose host brings a commit of the user before the first run.
type pushingBacklog struct {
	*fileBacklog
	push func()
}

func (b *pushingBacklog) BeginRun(context.Context, string) error {
	if b.push != nil {
		b.push()
		b.push = nil
	}
	return nil
}

// What the host brings is no commit of the run, and stays when that is not accepted.
func TestRunBeginsWithTheUsersCommits(t *testing.T) {
	g := newGatedLoop(t, []string{"a"}, commit("1")+"exit 1", commit("2")+finished("a"))
	var users string
	g.Backlog = &pushingBacklog{g.backlog, func() {
		g.git("commit", "-q", "--allow-empty", "-m", "the user's")
		users = g.git("rev-parse", "HEAD")
	}}
	report, err := Run(t.Context(), g.Options)
	assert.NilError(t, err, g.out.String())
	assert.Equal(t, len(report.Iterations), 2)
	assert.Equal(t, report.Iterations[1].Outcome, outcomeDone)
	assert.Equal(t, report.Iterations[1].Commits, 1)
	assert.Equal(t, g.git("rev-parse", "HEAD~1"), users)
	assert.Equal(t, g.git("rev-list", "--count", users+".."+report.Iterations[0].Attempt), "1")
	assert.Equal(t, report.Totals.Commits, 1)
}
