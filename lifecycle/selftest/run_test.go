package selftest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/projectimage"
)

// lines runs the self-test and returns what it reports, a line for a check:
// "name: ok, detail", "name: skipped, why" or "name: FAILED, what | remedy".
func lines(t *testing.T, ctx context.Context, m Machine) ([]string, error) { //nolint:revive // t comes first in helpers
	t.Helper()
	temporary(t)
	var all []string
	err := Run(ctx, m, func(r Result) {
		assert.Check(t, r.Took >= 0)
		line := r.Check + ": ok, " + r.Detail
		switch {
		case r.Skipped:
			assert.Check(t, !r.OK && r.Failed == "" && r.Remedy == "")
			line = r.Check + ": skipped, " + r.Detail
		case !r.OK:
			line = r.Check + ": FAILED, " + r.Failed
		}
		if r.Remedy != "" {
			line += " | " + r.Remedy
		}
		all = append(all, line)
	})
	return all, err
}

func TestRun(t *testing.T) {
	noBuildKit := &projectimage.NoBuildKitError{Host: "unix:///engine.sock", Err: errors.New("no h2c")}
	passBefore := []string{
		"engine: ok, 29.0.0, API 1.52, at unix:///engine.sock",
		"BuildKit: ok, v0.25.0",
		`driver: ok, container \(no sbx\)`,
		"agent image: ok, agent:v1",
	}
	passAfter := []string{
		"sandbox: ok, ralph-selftest-x-main",
		"ralph: ok, ralph v1.2.3",
		`commit: ok, [0-9a-f]{7,} ?.*`,
		"clean up: ok, removed ralph-selftest-x-main",
	}
	skippedFrom := func(why string) []string {
		return []string{
			"sandbox: skipped, " + why,
			`ralph: skipped, requires "sandbox", which was skipped`,
			`commit: skipped, requires "sandbox", which was skipped`,
			"clean up: skipped, no sandbox was created",
		}
	}
	for _, tc := range []struct {
		name   string
		change func(m *fakeMachine)
		want   [][]string
		fails  bool
		image  string // that the sandbox is made from
	}{
		{name: "all passes", want: [][]string{passBefore, passAfter}, image: "agent:v1"},
		{
			name:   "a project",
			change: func(m *fakeMachine) { m.project = &Image{Ref: "project:v1", Note: "built now"} },
			want:   [][]string{passBefore, {`build project image: ok, project:v1 \(built now\)`}, passAfter},
			image:  "project:v1",
		},
		{
			name:   "invalid project files",
			change: func(m *fakeMachine) { m.projectFile = errors.New("dependencies:2: bad") },
			want:   [][]string{passBefore, {"build project image: FAILED, dependencies:2: bad"}, passAfter},
			fails:  true, image: "agent:v1",
		},
		{
			name: "a project that cannot be built",
			change: func(m *fakeMachine) {
				m.project, m.projectBuild = &Image{Ref: "project:v1"}, errors.New("no such package")
			},
			want:  [][]string{passBefore, {"build project image: FAILED, no such package"}, passAfter},
			fails: true, image: "agent:v1",
		},
		{
			name: "project image not used by the driver",
			change: func(m *fakeMachine) {
				m.project, m.projectBuild = &Image{}, Skip("used as it is")
			},
			want:  [][]string{passBefore, {"build project image: skipped, used as it is"}, passAfter},
			image: "agent:v1",
		},
		{
			name: "no engine",
			change: func(m *fakeMachine) {
				m.engine.err = fmt.Errorf("dial: %w", fs.ErrPermission)
				m.project = &Image{Ref: "project:v1"}
			},
			want: [][]string{
				{
					`engine: FAILED, dial: permission denied | become a member .* "sudo usermod -aG docker \$USER".*`,
					`BuildKit: skipped, requires "engine", which failed`,
					`driver: skipped, requires "engine", which failed`,
					`agent image: skipped, requires "driver", which was skipped`,
					`build project image: skipped, requires "agent image", which was skipped`,
				},
				skippedFrom(`requires "agent image", which was skipped`),
			},
			fails: true,
		},
		{
			name: "no engine, and invalid project files",
			change: func(m *fakeMachine) {
				m.noClient, m.projectFile = errors.New("no such context"), errors.New("dependencies:2: bad")
			},
			want: [][]string{
				{
					"engine: FAILED, no such context",
					`BuildKit: skipped, .*`, `driver: skipped, .*`, `agent image: skipped, .*`,
					"build project image: FAILED, dependencies:2: bad",
				},
				skippedFrom(`requires "agent image", which was skipped`),
			},
			fails: true,
		},
		{
			name: "no engine, and none needed",
			change: func(m *fakeMachine) {
				m.engine.err = context.DeadlineExceeded
				m.driver = Driver{Name: "sbx", Why: "by --driver"}
			},
			want: [][]string{
				{
					"engine: skipped, not needed by the sbx driver: context deadline exceeded",
					`BuildKit: skipped, requires "engine", which was skipped`,
					`driver: ok, sbx \(by --driver\)`,
					"agent image: ok, agent:v1",
				},
				passAfter,
			},
			image: "agent:v1",
		},
		{
			name:   "an old engine",
			change: func(m *fakeMachine) { m.engine.version.Version, m.engine.version.APIVersion = "18.09.1", "1.39" },
			want: [][]string{
				{
					"engine: FAILED, the engine is too old: 18.09.1, API 1.39, at unix:///engine.sock | use Docker 20.10 or newer, whose API is 1.41",
					`BuildKit: skipped, .*`, `driver: skipped, .*`, `agent image: skipped, .*`,
				},
				skippedFrom(".*"),
			},
			fails: true,
		},
		{
			name:   "no BuildKit, but the image exists",
			change: func(m *fakeMachine) { m.buildKit = noBuildKit },
			want: [][]string{
				{passBefore[0], "BuildKit: FAILED, connecting to BuildKit on .*", passBefore[2], passBefore[3]},
				passAfter,
			},
			fails: true, image: "agent:v1",
		},
		{
			name:   "no BuildKit, and no image",
			change: func(m *fakeMachine) { m.buildKit, m.image = noBuildKit, fmt.Errorf("building: %w", noBuildKit) },
			want: [][]string{
				{passBefore[0], "BuildKit: FAILED, connecting to BuildKit on .*", passBefore[2], `agent image: skipped, requires "BuildKit", which failed`},
				skippedFrom(`requires "agent image", which was skipped`),
			},
			fails: true,
		},
		{
			name: "unusable driver",
			change: func(m *fakeMachine) {
				m.driver, m.unusable = Driver{Name: "sbx"}, errors.New("log in")
			},
			want: [][]string{
				{passBefore[0], passBefore[1], "driver: FAILED, log in", `agent image: skipped, requires "driver", which failed`},
				skippedFrom(".*"),
			},
			fails: true,
		},
		{
			name: "sandbox creation fails",
			change: func(m *fakeMachine) {
				m.sandbox.making = func(context.Context) error { return errors.New("no space") }
			},
			want: [][]string{passBefore, {
				"sandbox: FAILED, ralph version: no space",
				`ralph: skipped, requires "sandbox", which failed`,
				`commit: skipped, .*`,
				"clean up: ok, removed ralph-selftest-x-main",
			}},
			fails: true, image: "agent:v1",
		},
		{
			name:   "unsupported sandbox",
			change: func(m *fakeMachine) { m.describe = errors.New("git is not private here") },
			want: [][]string{passBefore, {
				"sandbox: FAILED, git is not private here",
				`ralph: skipped, .*`, `commit: skipped, .*`,
				"clean up: skipped, no sandbox was created",
			}},
			fails: true,
		},
		{
			name:   "another version of ralph",
			change: func(m *fakeMachine) { m.sandbox.version = "v0.0.1" },
			want: [][]string{passBefore, {
				passAfter[0],
				`ralph: FAILED, the sandbox runs "ralph v0.0.1" instead of "ralph v1.2.3" | reinstall .*`,
				passAfter[2], passAfter[3],
			}},
			fails: true, image: "agent:v1",
		},
		{
			name:   "a loop that fails",
			change: func(m *fakeMachine) { m.sandbox.exit, m.sandbox.commit = 6, "" },
			want: [][]string{passBefore, {
				passAfter[0], passAfter[1],
				"commit: FAILED, ralph build -n 1: exit code 6\nworking\nworked",
				passAfter[3],
			}},
			fails: true, image: "agent:v1",
		},
		{
			name:   "commit does not arrive",
			change: func(m *fakeMachine) { m.sandbox.commit = "" },
			want: [][]string{passBefore, {
				passAfter[0], passAfter[1], `commit: FAILED, ralph build succeeded without the commit .*: found ""`, passAfter[3],
			}},
			fails: true, image: "agent:v1",
		},
		{
			name:   "another commit",
			change: func(m *fakeMachine) { m.sandbox.commit = "Other" },
			want: [][]string{passBefore, {
				passAfter[0], passAfter[1], `commit: FAILED, .* without the commit .*: found "[0-9a-f]+ Other"`, passAfter[3],
			}},
			fails: true, image: "agent:v1",
		},
		{
			name:   "another content",
			change: func(m *fakeMachine) { m.sandbox.content = "dome\n" },
			want: [][]string{passBefore, {
				passAfter[0], passAfter[1], `commit: FAILED, .* contains "dome" instead of "done"`, passAfter[3],
			}},
			fails: true, image: "agent:v1",
		},
		{
			name:   "removal fails",
			change: func(m *fakeMachine) { m.sandbox.removal = errors.New("busy") },
			want:   [][]string{passBefore, passAfter[:3], {"clean up: FAILED, busy"}},
			fails:  true, image: "agent:v1",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newFakeMachine()
			if tc.change != nil {
				tc.change(m)
			}
			got, err := lines(t, t.Context(), m)
			assert.Equal(t, errors.Is(err, ErrFailed), tc.fails, "%v", err)
			assert.Equal(t, err == nil, !tc.fails)
			var want []string
			for _, part := range tc.want {
				want = append(want, part...)
			}
			assert.Equal(t, len(got), len(want), strings.Join(got, "\n"))
			for i := range want {
				pattern := strings.ReplaceAll(want[i], " | ", ` \| `)
				assert.Check(t, regexp.MustCompile(`^(?s:`+pattern+`)$`).MatchString(got[i]), "got:  %s\nwant: %s", got[i], want[i])
			}
			var made []string
			for _, image := range m.images {
				made = append(made, image.Ref)
			}
			assert.Equal(t, strings.Join(made, " "), tc.image)
		})
	}
}

func TestFilesOfAnotherUserFail(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can change the owner of a file")
	}
	m := newFakeMachine()
	m.sandbox.build = func(root string) {
		assert.NilError(t, os.Lchown(filepath.Join(root, taskFile), 1234, 2345))
	}
	got, err := lines(t, t.Context(), m)
	assert.ErrorIs(t, err, ErrFailed)
	assert.Assert(t, is.Regexp(`^commit: FAILED, .*/proof belongs to 1234:2345 instead of 0:0`, got[6]))
}

// An interrupted check and those after it are not reported, but the sandbox is
// removed.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := newFakeMachine()
	m.sandbox.making = func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	}
	got, err := lines(t, ctx, m)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, len(got), 4, strings.Join(got, "\n"))
	assert.Equal(t, m.sandbox.removed, 1)
}

func TestInterruptedAndNotRemoved(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := newFakeMachine()
	m.sandbox.removal = errors.New("busy")
	m.sandbox.making = func(context.Context) error {
		cancel()
		return nil
	}
	got, err := lines(t, ctx, m)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, len(got), 5)
	assert.Check(t, is.Contains(got[4], "clean up: FAILED, "))
}

func TestWithin(t *testing.T) {
	slow := func(ctx context.Context) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}
	_, err := within(t.Context(), time.Millisecond, slow)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "timed out after 1ms: ")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = within(ctx, time.Minute, slow)
	assert.Error(t, err, "context canceled")
}
