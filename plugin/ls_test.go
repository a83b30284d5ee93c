package plugin

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/golden"

	"github.com/docker-ralph/docker-ralph/lifecycle/disk"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
)

func sandboxes() []manage.SandboxStatus {
	ago := func(d time.Duration) *time.Time {
		at := time.Now().Add(-d).UTC()
		return &at
	}
	size, limit := int64(12_345_678), 7
	return []manage.SandboxStatus{
		{
			Name: "ralph-acme-shop-main", Repo: "acme/shop", Branch: "main", Driver: "container", Agent: "claude", State: "running",
			Loop:     &manage.LoopStatus{Command: "build", Running: true, Iteration: 3, Tasks: []string{"auth/02"}, Since: ago(4 * time.Minute), Others: 1},
			Worktree: "/src/shop", Image: "agent-loop-sandbox-claude:v1", Size: &size, Current: true,
		},
		{
			Name: "ralph-acme-shop-größe", Repo: "acme/shop", Branch: "größe", Driver: "sbx", Agent: "codex", State: "stopped",
			Loop:     &manage.LoopStatus{Command: "build", Iteration: 9, Since: ago(3 * time.Hour), Ended: ago(2 * time.Hour), Stop: "stall", ExitCode: &limit},
			Worktree: "/src/shop/.worktrees/größe", Image: "docker/sandbox-templates:codex",
		},
		{
			Name: "ralph-acme-shop-old", Repo: "acme/shop", Branch: "old", Driver: "container", Agent: "claude", State: "unknown",
			Loop:     &manage.LoopStatus{Command: "plan", Since: ago(time.Hour), Killed: true},
			Worktree: "/src/old", Gone: true, Image: "evil\n\x1b[2Jimage",
		},
		{Name: "ralph-acme-shop-new", Repo: "acme/shop", Branch: "new", Driver: "container", Agent: "shell", State: "running", Worktree: "/src/new", Image: "x"},
	}
}

func TestWriteSandboxes(t *testing.T) {
	for _, tc := range []struct {
		name, format string
		size         bool
	}{
		{"table", "table", false},
		{"size", "table", true},
		{"columns", `table {{.Name}}\t{{.Iteration}}\t{{.Task}}\t{{.ExitCode}}`, false},
		{"template", "{{.Name}} {{.Current}} {{json .Branch}}", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			assert.NilError(t, writeSandboxes(&out, tc.format, tc.size, sandboxes()))
			golden.Assert(t, out.String(), "ls-"+tc.name+".golden")
		})
	}
	assert.ErrorContains(t, writeSandboxes(&bytes.Buffer{}, "", false, nil), "empty --format")
	assert.ErrorContains(t, writeSandboxes(&bytes.Buffer{}, "{{.Nothing}}", false, sandboxes()), "Nothing")
}

func TestOtherClientIsNamed(t *testing.T) {
	s := sandboxes()[3]
	s.OtherClient, s.Activity = "una@lap\x1b[2Jtop", manage.Unknown
	var table, template, object bytes.Buffer
	assert.NilError(t, writeSandboxes(&table, "table", false, []manage.SandboxStatus{s}))
	assert.Check(t, cmp.Contains(table.String(), "   of another client, una@laptop   "))
	assert.NilError(t, writeSandboxes(&template, "{{.OtherClient}}", false, []manage.SandboxStatus{s}))
	assert.Equal(t, template.String(), "una@laptop\n")
	assert.NilError(t, writeStatus(&object, "json", s))
	assert.Check(t, cmp.Contains(object.String(), `"other_client": "una@lap`))
	assert.Check(t, cmp.Contains(statusText(s, time.Now()), "Sandbox    ralph-acme-shop-new: running (container, shell), of another client, una@laptop\n"))

	items := []disk.Item{{Type: disk.Volumes, Name: "ours"}, {Type: disk.Volumes, Name: "theirs", OtherClient: "una@laptop"}}
	for shown, list := range map[bool][]disk.Item{true: items, false: items[:1]} {
		var df bytes.Buffer
		assert.NilError(t, writeUsage(&df, "table", true, list))
		assert.Equal(t, strings.Contains(df.String(), "OTHER CLIENT"), shown)
		assert.Equal(t, strings.Contains(df.String(), "una@laptop"), shown)
	}
}

func TestEngineColumn(t *testing.T) {
	at := func(engine string, remote bool) manage.SandboxStatus {
		return manage.SandboxStatus{Name: "box", Engine: engine, Remote: remote}
	}
	for _, tc := range []struct {
		name  string
		list  []manage.SandboxStatus
		shown bool
	}{
		{"none", nil, false},
		{"the local engine and a microVM", []manage.SandboxStatus{at("default", false), at("", false), at("default", false)}, false},
		{"a remote engine", []manage.SandboxStatus{at("big", true)}, true},
		{"two engines", []manage.SandboxStatus{at("", false), at("default", false), at("desktop-linux", false)}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			assert.NilError(t, writeSandboxes(&out, "table", false, tc.list))
			assert.Equal(t, strings.Contains(out.String(), "ENGINE"), tc.shown)
		})
	}
}

func TestWriteSandboxesAsJSON(t *testing.T) {
	var out bytes.Buffer
	assert.NilError(t, writeSandboxes(&out, "json", false, nil))
	assert.Equal(t, out.String(), "[]\n")
	out.Reset()
	assert.NilError(t, writeSandboxes(&out, "json", false, sandboxes()))
	var back []manage.SandboxStatus
	assert.NilError(t, json.Unmarshal(out.Bytes(), &back))
	assert.DeepEqual(t, back, sandboxesWithout(back))
}

// sandboxesWithout are the sandboxes with the times of others.
func sandboxesWithout(times []manage.SandboxStatus) []manage.SandboxStatus {
	list := sandboxes()
	for i, s := range list {
		if s.Loop != nil {
			s.Loop.Since, s.Loop.Ended = times[i].Loop.Since, times[i].Loop.Ended
		}
	}
	return list
}

func TestStatesAreColoured(t *testing.T) {
	var out bytes.Buffer
	list := sandboxes()
	assert.NilError(t, writeSandboxes(&out, "table", false, list))
	table := out.String()
	got := coloured(table, list)
	for _, want := range []string{"\x1b[32mrunning\x1b[0m ", "\x1b[90mstopped\x1b[0m ", "\x1b[33munknown\x1b[0m "} {
		assert.Check(t, cmp.Contains(got, want))
	}
	plain := strings.NewReplacer("\x1b[32m", "", "\x1b[90m", "", "\x1b[33m", "", "\x1b[0m", "").Replace(got)
	assert.Equal(t, plain, table)
	assert.Equal(t, coloured("", nil), "")
}

func TestFilterOfSandboxes(t *testing.T) {
	for conditions, want := range map[string]string{
		"": "main größe old new", "state=running": "main new", "state=running agent=claude": "main",
		"agent=codex agent=shell": "größe new", "name=shop-o": "old", "branch=nothing": "", "driver=sbx": "größe",
	} {
		matches, err := sandboxFilter(strings.Fields(conditions))
		assert.NilError(t, err)
		var got []string
		for _, s := range sandboxes()[:4] {
			if matches(s) {
				got = append(got, s.Branch)
			}
		}
		assert.Check(t, cmp.Equal(strings.Join(got, " "), want), conditions)
	}
	for _, wrong := range []string{"x", "agent=", "size=3"} {
		_, err := sandboxFilter([]string{wrong})
		assert.ErrorContains(t, err, "invalid filter")
	}
}
