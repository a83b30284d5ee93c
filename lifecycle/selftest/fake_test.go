package selftest

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/moby/moby/client"
	"gotest.tools/v3/assert"
)

// fakeMachine is a machine on which all checks pass, unless a test changes it.
type fakeMachine struct {
	engine       fakeEngine
	noClient     error // there is no client for the engine
	buildKit     error
	driver       Driver
	unusable     error
	image        error
	project      *Image
	projectFile  error
	projectBuild error
	describe     error // the sandbox cannot be described
	sandbox      fakeSandbox

	images []Image // that sandboxes were made from
}

func newFakeMachine() *fakeMachine {
	return &fakeMachine{
		engine:  fakeEngine{version: client.ServerVersionResult{Version: "29.0.0", APIVersion: "1.52"}},
		driver:  Driver{Name: "container", Why: "no sbx", NeedsEngine: true},
		sandbox: fakeSandbox{version: "v1.2.3", commit: taskTitle, content: "done\n"},
	}
}

func (m *fakeMachine) Engine() (Engine, error)                  { return m.engine, m.noClient }
func (m *fakeMachine) BuildKit(context.Context) (string, error) { return "v0.25.0", m.buildKit }
func (m *fakeMachine) Driver(context.Context) (Driver, error)   { return m.driver, m.unusable }
func (m *fakeMachine) Version() string                          { return "v1.2.3" }

func (m *fakeMachine) AgentImage(context.Context) (Image, error) {
	return Image{Ref: "agent:v1"}, m.image
}

func (m *fakeMachine) Project(context.Context) (func(context.Context) (Image, error), error) {
	if m.project == nil {
		return nil, m.projectFile
	}
	return func(context.Context) (Image, error) { return *m.project, m.projectBuild }, nil
}

func (m *fakeMachine) Sandbox(_ context.Context, root string, image Image) (Sandbox, error) {
	if m.describe != nil {
		return nil, m.describe
	}
	m.images = append(m.images, image)
	m.sandbox.root = root
	return &m.sandbox, nil
}

type fakeEngine struct {
	version client.ServerVersionResult
	err     error
}

func (e fakeEngine) DaemonHost() string { return "unix:///engine.sock" }

func (e fakeEngine) ServerVersion(context.Context, client.ServerVersionOptions) (client.ServerVersionResult, error) {
	return e.version, e.err
}

// fakeSandbox emulates ralph on this machine.
type fakeSandbox struct {
	root    string
	version string
	commit  string // the title of the build's commit; empty for none
	content string
	step    string // of the task
	making  func(ctx context.Context) error
	exit    int
	build   func(root string)
	removal error

	removed int
}

func (s *fakeSandbox) Name() string { return "ralph-selftest-x-main" }

func (s *fakeSandbox) Ralph(ctx context.Context, out io.Writer, args ...string) (int, error) {
	if args[0] == "version" && s.making != nil {
		return 0, s.making(ctx)
	}
	switch args[0] {
	case "version":
		_, err := io.WriteString(out, "ralph "+s.version+"\n")
		return 0, err
	case "build":
		return s.exit, s.work(ctx, out)
	default:
		return 0, nil
	}
}

func (s *fakeSandbox) CreateTask(_ context.Context, _, _, step string) error {
	s.step = step
	return nil
}

func (s *fakeSandbox) work(ctx context.Context, out io.Writer) error {
	_, _ = io.WriteString(out, "working\nworked\n")
	if s.step != taskScript {
		return errors.New("no task")
	}
	if s.commit == "" {
		return nil
	}
	err := os.WriteFile(filepath.Join(s.root, taskFile), []byte(s.content), 0o644)
	for _, args := range [][]string{
		{"add", taskFile},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", s.commit},
	} {
		if err == nil {
			_, err = git(ctx, s.root, args...)
		}
	}
	if s.build != nil {
		s.build(s.root)
	}
	return err
}

func (s *fakeSandbox) Remove(ctx context.Context) error {
	s.removed++
	return errors.Join(s.removal, ctx.Err())
}

// temporary sets TMPDIR to a directory of the test and checks that it is empty at
// the end.
func temporary(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		assert.NilError(t, err)
		assert.Equal(t, len(left), 0, "left: %v", left)
	})
}
