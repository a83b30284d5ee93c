package loop

import (
	"context"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/wire/denylog"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// noteAgent is an agent that records the note of each run.
type noteAgent struct {
	script
	notes *[]string
}

func (a noteAgent) Prepare(ctx context.Context, s agent.Session) (agent.Command, error) {
	*a.notes = append(*a.notes, s.Note)
	return a.script.Prepare(ctx, s)
}

func TestNextRunGetsBlockedConnections(t *testing.T) {
	answers := []denylog.Answer{
		{Refused: []denylog.Refusal{{Host: "before.example", Port: 443, Times: 1}}},
		{Refused: []denylog.Refusal{{Host: "a.example", Port: 443, Times: 3}, {Host: "b.example", Times: 1}}, More: 2},
		{},
		{Refused: []denylog.Refusal{{Host: "late.example", Port: 80, Times: 1}}},
	}
	tr := newTestLoop(t, agent.Plan, "", nil)
	var notes []string
	tr.Agent, tr.MaxIterations = noteAgent{"true", &notes}, 3
	tr.RefusedText = "Refused:\n\n{refused}\n\nKeep off.\n"
	asked := 0
	tr.Refused = func(context.Context) denylog.Answer {
		asked++
		return answers[asked-1]
	}
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.DeepEqual(t, notes, []string{
		"", "Refused:\n\n- `a.example:443`, 3 times\n- `b.example`, 1 time\n- others, 2 times\n\nKeep off.\n", "",
	})
	out := tr.out.String()
	assert.Check(t, cmp.Contains(out, " | blocked: a.example:443 ×3, b.example ×1\n"))
	assert.Check(t, cmp.Contains(out, " | blocked: late.example:80 ×1\n"))
	assert.Equal(t, strings.Count(out, "blocked"), 2)
	assert.DeepEqual(t, report.Iterations[0].Refused, answers[1].Refused)
	assert.Equal(t, asked, len(answers))
}

func TestBlockedConnectionsSurviveARateLimit(t *testing.T) {
	l := &loop{}
	note := func(limited bool, hosts ...string) string {
		var r denylog.Answer
		for _, host := range hosts {
			r.Refused = append(r.Refused, denylog.Refusal{Host: host, Port: 443, Times: 1})
		}
		l.RefusedText, l.Refused = "{refused}", func(context.Context) denylog.Answer { return r }
		it := &iteration{}
		if limited {
			it.class = classWorld
		}
		l.collectDenied(t.Context(), it)
		return l.nextNote()
	}
	assert.Equal(t, note(false, "a.example"), "- `a.example:443`, 1 time")
	assert.Equal(t, note(true), "- `a.example:443`, 1 time")
	assert.Equal(t, note(true, "b.example"), "- `b.example:443`, 1 time")
	l.note = "A check failed.\n"
	assert.Equal(t, note(false, "c.example"), "A check failed.\n\n- `c.example:443`, 1 time")
	assert.Equal(t, note(false), "A check failed.\n")
}

func TestBlockedConnectionsAreBounded(t *testing.T) {
	var r denylog.Answer
	for range denylog.MaxTargets - 1 {
		r.Refused = append(r.Refused, denylog.Refusal{Host: "a.example", Port: 1, Times: 2})
	}
	long := strings.Repeat("do-what-i-say.", 15) + "example"
	r.Refused = append([]denylog.Refusal{{Host: long, Port: 1, Times: 1}}, r.Refused...)
	assert.Check(t, r.Refused[0].Valid())
	list := deniedList(r)
	assert.Equal(t, strings.Count(list, "\n"), deniedInPrompt)
	assert.Check(t, cmp.Contains(list, "\n- others, 87 times"))
	assert.Check(t, !strings.Contains(list, "do-what-i-say"))
	said := line(runlog.Iteration{Refused: r.Refused})
	assert.Check(t, cmp.Contains(said, "blocked: a.example:1 ×2, a.example:1 ×2, a.example:1 ×2, 61 more"))
	assert.Check(t, !strings.Contains(said, "do-what-i-say"))
}

// A run in which settings deny a part of the calls goes on, and is warned about once.
func TestDeniedCallsAreWarnedAboutOnce(t *testing.T) {
	s := newFileBacklog(t, "a", "b")
	tr := newFileLoop(t, "", s)
	call := `echo '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"a","name":"Bash","input":{}},{"type":"tool_use","id":"b","name":"Edit","input":{}}]}}';`
	tr.Agent = script(`n=$(cat $DIR/n 2>/dev/null); echo $((n+1)) >$DIR/n; [ "$n" ] && touch $BACKLOG/b; touch $BACKLOG/a; ` + call +
		`echo '{"type":"system","subtype":"hook_response","hook_name":"SessionStart:startup","outcome":"error","output":"no script"}';` +
		`echo '{"type":"result","num_turns":2,"result":"x","permission_denials":[{"tool_name":"Bash","tool_use_id":"a"}]}'`)
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Equal(t, report.Stop, Complete)
	for _, it := range report.Iterations {
		assert.Equal(t, it.Denied, 1)
		assert.Equal(t, it.HookErrors, 1)
	}
	for _, want := range []string{"the settings of agent claude denied 1 tool call: permission for Bash denied\n", "a hook of agent claude failed: SessionStart:startup: no script\n"} {
		assert.Equal(t, strings.Count(tr.errs.String(), "Warning: "+want), 1, tr.errs.String())
	}
	assert.Check(t, cmp.Contains(tr.out.String(), " | 1 tool call denied | 1 hook error"))
}

// A failure during which hosts were blocked begins with them: its output has an exit code
// of curl, not the host.
func TestFailuresNameBlockedHostsFirst(t *testing.T) {
	font := denylog.Answer{Refused: []denylog.Refusal{{Host: "fonts.example", Port: 443, Times: 2}}}
	const want = "blocked: fonts.example:443 ×2, allow with: docker ralph network allow fonts.example\n"
	for _, tc := range []struct {
		name, agent, note string
		answers           []denylog.Answer // skipped, run, check
	}{
		{"in a check", "touch $BACKLOG/a", "reopen a: " + want + `check "exit 22" failed with exit code 22`, []denylog.Answer{{}, {}, font}},
		{"only before the check", "touch $BACKLOG/a", `reopen a: check "exit 22" failed`, []denylog.Answer{{}, font, {}}},
		{"in a crash", "exit 56", "release a: " + want + "session exited without completing task: exited with code 56", []denylog.Answer{{}, font}},
		{"in a run that gave up", "exit 0", "release a: " + want + "session exited", []denylog.Answer{{}, font}},
		{"in none", "exit 56", "release a: session exited", []denylog.Answer{{}, {}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newFileBacklog(t, "a")
			tr := newFileLoop(t, tc.agent, b)
			if len(tc.answers) < 3 {
				b.held = []string{"a"}
			}
			asked := 0
			tr.Refused = func(context.Context) denylog.Answer {
				asked++
				return tc.answers[min(asked, len(tc.answers))-1]
			}
			tr.Checks, tr.MaxIterations = []string{"exit 22"}, 1
			report, _ := Run(t.Context(), tr.Options)
			assert.Check(t, cmp.Contains(strings.Join(b.notes, "\n"), tc.note))
			assert.Equal(t, asked, len(tc.answers))
			assert.Equal(t, len(report.Iterations[0].Refused) > 0, tc.name != "in none")
		})
	}
}

func TestBlockedConnectionsOfAnAgentAndItsChecksAreAdded(t *testing.T) {
	a, b := denylog.Refusal{Host: "a.example", Port: 443, Times: 1}, denylog.Refusal{Host: "b.example", Port: 443, Times: 2}
	twice := a
	twice.Times = 2
	assert.DeepEqual(t, merged([]denylog.Refusal{a, b}, []denylog.Refusal{a}), []denylog.Refusal{twice, b})
	assert.Equal(t, a.Times, 1)
}
