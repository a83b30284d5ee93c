package host

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/docker-ralph/docker-ralph/gitrepo"
	"github.com/docker-ralph/docker-ralph/lifecycle"
)

// running is a driver in whose sandbox dispatches run.
type running struct {
	lifecycle.Driver
	ids   []string
	asked int
	err   error
}

func (r *running) Dispatches(context.Context, lifecycle.Sandbox) ([]lifecycle.Dispatch, error) {
	r.asked++
	var all []lifecycle.Dispatch
	for _, id := range r.ids {
		all = append(all, lifecycle.Dispatch{ID: id})
	}
	return all, r.err
}

func TestOrphansAreReported(t *testing.T) {
	var stderr bytes.Buffer
	h := Host{StateDir: t.TempDir(), Stderr: &stderr}
	sb := lifecycle.Sandbox{Name: "ralph-a"}
	begin := func(id string) func(error) {
		done, err := h.NewRecord(Record{ID: id, Command: []string{"ralph", "build", "-n", "3"}, Scope: sb.Scope, Root: sb.Root, Sandbox: sb.Name})
		assert.NilError(t, err)
		return done.Done
	}
	d := &running{ids: []string{"killed", "alive", "detached"}}

	h.ReportOrphans(t.Context(), d, sb)
	begin("ended")(nil)
	alive := begin("alive")
	h.ReportOrphans(t.Context(), d, sb)
	assert.Equal(t, d.asked, 0, "without an orphaned record, the sandbox is not asked")
	assert.Equal(t, stderr.String(), "")

	begin("killed")(errors.New("as a killed process leaves it"))
	begin("detached")(lifecycle.ErrDetached)
	begin("over")(errors.New("its program has ended since"))
	assert.NilError(t, os.WriteFile(h.RecordDir(sb.Name)+"/torn", []byte(`{"id":`), 0o600))
	left := h.ReportOrphans(t.Context(), d, sb)
	assert.Equal(t, len(left), 2)
	assert.Equal(t, left[0].ID+" "+left[1].ID, "detached killed")
	assert.Equal(t, d.asked, 1)
	assert.Equal(t, bytes.Count(stderr.Bytes(), []byte("Warning: ")), 2)
	assert.Assert(t, is.Contains(stderr.String(), `Warning: "ralph build -n 3" is still running in the background in sandbox ralph-a, since `))
	assert.Assert(t, is.Contains(stderr.String(), `stop it with "docker ralph stop ralph-a"`))
	records, err := h.RecordsFor(sb.Name)
	assert.NilError(t, err)
	assert.Equal(t, len(records), 3, "the live one, and the two that still run")

	stderr.Reset()
	d.err = errors.New("no answer")
	h.ReportOrphans(t.Context(), d, sb)
	assert.Assert(t, is.Contains(stderr.String(), "unknown whether an earlier command is still running in ralph-a: no answer"))
	alive(nil)
}

func TestEphemeralNames(t *testing.T) {
	long := "ralph-" + strings.Repeat("x", 47) + "-yyyy"
	for _, of := range []string{"ralph-a-b", long} {
		assert.Check(t, isEphemeralOf(EphemeralName(of), of), of)
		assert.Check(t, !isEphemeralOf(of, of))
	}
	assert.Check(t, !isEphemeralOf("ralph-a-feature", "ralph-a"), "another branch")
	assert.Check(t, !isEphemeralOf("ralph-a-fea-ture", "ralph-a"))
}

// The sandbox of another branch can be called like one for one dispatch, and that of
// another clone, or of another branch, like one's own.
func TestRecordsOfAScope(t *testing.T) {
	h := Host{StateDir: t.TempDir()}
	wt := gitrepo.Worktree{Root: "/shop", Scope: gitrepo.Scope{Repo: "acme/shop", Branch: "log/in"}}
	for id, sb := range map[string]lifecycle.Sandbox{
		"own":       {Name: "ralph-acme-shop-log-in", Root: wt.Root, Scope: wt.Scope},
		"ephemeral": {Name: "ralph-acme-shop-log-in-abcdefgh", Root: wt.Root, Scope: wt.Scope},
		"refactor":  {Name: "ralph-acme-shop-log-in-refactor", Root: wt.Root, Scope: gitrepo.Scope{Repo: "acme/shop", Branch: "log/in-refactor"}},
		"dash":      {Name: "ralph-acme-shop-log-in", Root: wt.Root, Scope: gitrepo.Scope{Repo: "acme/shop", Branch: "log-in"}},
		"clone":     {Name: "ralph-acme-shop-log-in-12345678", Root: "/clone", Scope: wt.Scope},
	} {
		n, err := h.NewRecord(Record{ID: id, Command: []string{"ralph", "build"}, Scope: sb.Scope, Root: sb.Root, Sandbox: sb.Name})
		assert.NilError(t, err)
		defer func() { _ = n.Lock.Close() }()
	}
	all, err := h.RecordsIn(wt)
	assert.NilError(t, err)
	ids := map[string]bool{}
	for _, n := range all {
		ids[n.ID] = true
	}
	assert.DeepEqual(t, ids, map[string]bool{"own": true, "ephemeral": true})
}

func TestExclusiveLockWaitsForCommands(t *testing.T) {
	h := Host{StateDir: t.TempDir(), Stderr: &bytes.Buffer{}}
	const sb = "ralph-a-b-main"
	one, err := h.LockShared(t.Context(), sb)
	assert.NilError(t, err)
	two, err := h.LockShared(t.Context(), sb)
	assert.NilError(t, err)
	leave, err := h.LockExclusive(t.Context(), sb, 100*time.Millisecond)
	assert.NilError(t, err)
	assert.Assert(t, leave == nil)
	one.Leave()
	two.Leave()
	leave, err = h.LockExclusive(t.Context(), sb, time.Minute)
	assert.NilError(t, err)
	came := make(chan error)
	go func() {
		three, err := h.LockShared(t.Context(), sb)
		if err == nil {
			three.Leave()
		}
		came <- err
	}()
	leave()
	assert.NilError(t, <-came)
}

// A stop is recorded for running commands only.
func TestRecordStop(t *testing.T) {
	h := Host{StateDir: t.TempDir()}
	n, err := h.NewRecord(Record{ID: "x", Command: []string{"ralph", "build"}, Sandbox: "box"})
	assert.NilError(t, err)
	assert.Assert(t, !h.Stopped("box", "x"))
	assert.NilError(t, h.RecordStop("box"))
	assert.Assert(t, h.Stopped("box", "x"))
	n.Done(nil)
	assert.NilError(t, n.write(n.path))
	assert.Assert(t, Missing(n.path), "a record of an ended command was created again")
	assert.Assert(t, !h.Stopped("box", "x"))
}
