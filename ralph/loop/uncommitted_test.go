package loop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/ralph/attempt"
	"github.com/docker-ralph/docker-ralph/wire/attemptref"
)

// aside keeps attempts in memory: those with the files of a loop's worktree.
type aside struct {
	dir  string
	refs map[string][]string
	err  error
}

func (a *aside) state(context.Context) (state attempt.State, _ error) {
	entries, err := os.ReadDir(a.dir)
	for _, e := range entries {
		state.Files = append(state.Files, e.Name())
	}
	return state, err
}

func (a *aside) SetAside(ctx context.Context, id attemptref.ID, before attempt.State) (saved attempt.Saved, _ error) {
	state, err := a.state(ctx)
	if err = errors.Join(err, a.err); err != nil {
		return saved, err
	}
	for _, file := range state.Files {
		if slices.Contains(before.Files, file) {
			continue
		}
		if err := os.Remove(filepath.Join(a.dir, file)); err != nil {
			return saved, err
		}
		saved.Files++
		saved.Raw = saved.Raw || file == "raw"
	}
	if saved.Files > 0 {
		saved.Ref, err = a.Keep(ctx, id, "")
	}
	return saved, err
}

func (a *aside) Keep(_ context.Context, id attemptref.ID, _ string) (string, error) {
	ref := id.Ref(attemptref.Unfetched, a.refs[id.Task])
	a.refs[id.Task] = append([]string{ref}, a.refs[id.Task]...)
	return ref, nil
}

func (a *aside) Publish(_ context.Context, id attemptref.ID, ref string) (string, error) {
	refs := a.refs[id.Task]
	refs[slices.Index(refs, ref)] = id.Ref(attemptref.Prefix, refs)
	return refs[0], nil
}

func (*aside) Begin(attempt.Begun) error { return nil }

func (*aside) Begun() (*attempt.Begun, error) { return nil, nil }

func (*aside) End() error { return nil }

func (a *aside) List(context.Context) map[string][]string { return a.refs }

func newAsideLoop(t *testing.T, program string, b *fileBacklog) (*testLoop, *aside, *[]string) {
	t.Helper()
	tr, notes := newFileLoop(t, "", b), &[]string{}
	tr.Agent = noteAgent{script("cd " + tr.Dir + "; " + program), notes}
	a := &aside{dir: tr.Dir, refs: map[string][]string{}}
	tr.Uncommitted, tr.Attempts = a.state, a
	assert.NilError(t, os.WriteFile(filepath.Join(tr.Dir, "mine"), nil, 0o600))
	return tr, a, notes
}

// One bad task does not take others along: checks and runs do not see what it left, and
// the next agent hears where that is.
func TestNextRunStartsClean(t *testing.T) {
	for _, tc := range []struct{ name, first, refs string }{
		{"crashed", "touch x; exit 1", "a/1"},
		{"gave up", "touch x", "a/1"},
		{"finished without a commit", "touch x $BACKLOG/a", "a/1"},
		{"out of time", "touch x; sleep 100", "a/1"},
		{"left nothing", "exit 1", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newFileBacklog(t, "a", "b")
			if !strings.Contains(tc.first, "BACKLOG") {
				b.held = []string{"a"}
			}
			tr, _, notes := newAsideLoop(t, `test -e $DIR/1 || { touch $DIR/1; `+tc.first+`; exit; }; test -e x && echo DIRTY; touch y $BACKLOG/b`, b)
			tr.Checks = []string{"test ! -e x && test ! -e y && test -e mine"}
			tr.MaxIterations, tr.Bounds.MaxFailures = 2, 0
			if strings.Contains(tc.first, "sleep") {
				tr.MaxIterations, tr.Timeout = 1, tr.timing.drain
			}
			report, _ := Run(t.Context(), tr.Options)
			out := tr.out.String()
			assert.Check(t, !strings.Contains(out, "DIRTY"), out)
			if tc.refs != "" {
				assert.Check(t, cmp.Contains(out, "Set aside 1 change that the run did not commit: refs/heads/ralph-attempts/"+tc.refs+"\n"))
			}
			if tr.MaxIterations == 1 {
				return
			}
			assert.Equal(t, len(report.Iterations[1].Checks), 1, out)
			assert.Equal(t, report.Iterations[1].Checks[0].Failure, "")
			named := strings.Contains((*notes)[1], "- `a`: `refs/heads/ralph-attempts/"+tc.refs+"`\n")
			assert.Equal(t, named, tc.refs != "" && report.Iterations[0].Outcome != outcomeDone, (*notes)[1])
			_, err := os.Stat(filepath.Join(tr.Dir, "mine"))
			assert.NilError(t, err)
		})
	}
}

// The host does not get what its filters should have encoded.
func TestRawFilesStayInTheSandbox(t *testing.T) {
	b := newFileBacklog(t, "a")
	tr, a, _ := newAsideLoop(t, "touch raw; exit 1", b)
	b.held, tr.MaxIterations = []string{"a"}, 1
	_, _ = Run(t.Context(), tr.Options)
	ref := attemptref.ID{Task: "a", N: 1}.Ref(attemptref.Unfetched, nil)
	assert.DeepEqual(t, a.refs, map[string][]string{"a": {ref}})
	assert.Check(t, cmp.Contains(tr.out.String(), "Set aside 1 change that the run did not commit: "+ref+"\n"))
}

// Nothing is set aside that may be another's work.
func TestSetAsideOnlyWhatIsTheRuns(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(*Options)
		warn string
	}{
		{
			"another session", func(o *Options) { o.OtherSession = func() string { return "ralph shell" } },
			`Warning: uncommitted changes are not set aside while "ralph shell" runs in this sandbox`,
		},
		{"unknown before", func(o *Options) {
			o.Uncommitted = func(context.Context) (attempt.State, error) { return attempt.State{}, errors.New("listing: broken") }
		}, "Warning: listing: broken"},
		{"outside of a sandbox", func(o *Options) { o.Attempts = nil }, ""},
		{"git fails", func(o *Options) {
			o.Attempts.(*aside).err = errors.New("setting aside: broken")
		}, "Warning: setting aside: broken; the next run starts with them"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newFileBacklog(t, "a")
			tr, _, _ := newAsideLoop(t, "touch x; exit 1", b)
			b.held, tr.MaxIterations = []string{"a"}, 1
			tc.set(&tr.Options)
			_, _ = Run(t.Context(), tr.Options)
			_, err := os.Stat(filepath.Join(tr.Dir, "x"))
			assert.NilError(t, err)
			assert.Check(t, cmp.Contains(tr.errs.String(), tc.warn))
		})
	}
}

// A check neither waits for input nor starts what only a person would end.
func TestChecksRunUnattended(t *testing.T) {
	b := newFileBacklog(t, "a")
	tr := newFileLoop(t, "touch $BACKLOG/a", b)
	tr.Env = append(tr.Env, "CI=")
	tr.Checks = []string{`test "$CI" = true`, "! read line"}
	report, err := Run(t.Context(), tr.Options)
	assert.NilError(t, err)
	assert.Equal(t, len(report.Iterations[0].Checks), 2)
}
