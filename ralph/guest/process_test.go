package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/docker-ralph/docker-ralph/wire"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/fs"
)

// fakeProcess is a process as /proc shows it.
type fakeProcess struct {
	pid      int
	name     string
	state    string
	start    int
	dispatch string
	cmdline  string
}

func stat(pid int, name, state string, start int) string {
	return fmt.Sprintf("%d (%s) %s 1 1 1 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 %d 1000 100 18446744073709551615\n", pid, name, state, start)
}

func fakeProc(t *testing.T, all ...fakeProcess) string {
	t.Helper()
	ops := []fs.PathOp{
		fs.WithDir("self"),
		fs.WithFile("stat", "cpu 1 2 3\nbtime 1700000000\nprocesses 5\n"),
		fs.WithDir("6"), // ended meanwhile
	}
	for _, p := range all {
		environ := "HOME=/\x00X" + wire.DispatchEnv + "=other\x00"
		if p.dispatch != "" {
			environ += wire.DispatchEnv + "=" + p.dispatch + "\x00LAST=1\x00"
		}
		ops = append(ops, fs.WithDir(strconv.Itoa(p.pid), fs.WithFile("stat", stat(p.pid, p.name, p.state, p.start)),
			fs.WithFile("environ", environ), fs.WithFile("cmdline", p.cmdline)))
	}
	return fs.NewDir(t, "proc", ops...).Path()
}

func TestFindDispatch(t *testing.T) {
	proc := fakeProc(t,
		fakeProcess{1, "ralph", "S", 1, "", "init\x00"},
		fakeProcess{5, "claude", "R", 900, "x1", ""}, // a child, after the numbers began again
		fakeProcess{7, "zombie", "Z", 100, "x1", ""},
		fakeProcess{8, "a) Z 1 (b", "S", 800, "x1", ""},
		fakeProcess{9, "ralph", "S", 800, "x1", ""}, // as early, but a greater number
		fakeProcess{11, "ralph", "S", 10, "x11", ""},
		fakeProcess{12, "sh", "S", 20, "", ""},
		fakeProcess{13, "ralph", "D", 850, "", "/x/ralph\x00_dispatch\x00begun\x00-\x00=sh\x00"},
		fakeProcess{14, "gone", "X", 850, "dead", ""},
		fakeProcess{15, "ralph", "S", 900, "", "/opt/ralph/x/ralph\x00build\x00" + wire.DispatchMark("LOOP") + "\x00"},
		fakeProcess{16, "claude", "S", 901, "LOOP", "claude\x00"},
		fakeProcess{17, "echo", "S", 30, "", "echo\x00" + wire.DispatchMark("LOOP") + "\x00"}, // no ralph
	)
	for id, want := range map[string]int{"x1": 8, "x11": 11, "begun": 13, "LOOP": 15} {
		pid, err := findDispatch(proc, id)
		assert.NilError(t, err)
		assert.Equal(t, pid, want, id)
	}
	for _, id := range []string{"x", "other", "dead"} {
		_, err := findDispatch(proc, id)
		assert.Error(t, err, "no process of dispatch "+id)
	}
	_, err := findDispatch(filepath.Join(proc, "missing"), "x1")
	assert.ErrorContains(t, err, "listing processes")
}

func TestRunningDispatches(t *testing.T) {
	proc := fakeProc(t,
		fakeProcess{9, "sh", "S", 360000, "later", "sh\x00-c\x00\x00a b\x00"},
		fakeProcess{3, "ralph", "S", 150, "", "/opt/ralph/x/ralph\x00_dispatch\x00earlier\x0024x80\x00=ralph\x00=build\x00=\x00"},
		fakeProcess{8, "claude", "S", 200, "earlier", "claude\x00"},
		fakeProcess{2, "node", "S", 250, "silent", ""},
		fakeProcess{4, "ralph", "S", 300, "", "ralph\x00build\x00--max\x003\x00" + wire.DispatchMark("LOOP") + "\x00"},
	)
	got, err := runningDispatches(proc)
	assert.NilError(t, err)
	assert.DeepEqual(t, got, []runningDispatch{
		{"earlier", []string{"ralph", "build", ""}, "2023-11-14T22:13:21Z"},
		{"silent", []string{}, "2023-11-14T22:13:22Z"},
		{"LOOP", []string{"ralph", "build", "--max", "3"}, "2023-11-14T22:13:23Z"},
		{"later", []string{"sh", "-c", "", "a b"}, "2023-11-14T23:13:20Z"},
	})

	assert.NilError(t, os.WriteFile(filepath.Join(proc, "stat"), []byte("btime x\n"), 0o600))
	_, err = runningDispatches(proc)
	assert.ErrorContains(t, err, "reading the boot time")
	assert.NilError(t, os.WriteFile(filepath.Join(proc, "stat"), []byte("cpu\n"), 0o600))
	_, err = runningDispatches(proc)
	assert.ErrorContains(t, err, "no btime")
}

func TestArgumentsWithoutMark(t *testing.T) {
	args := []string{"/opt/ralph/x/ralph", "task", "create", wire.DispatchMark("ABC")}
	for name, tc := range map[string]struct {
		dispatch string
		want     int
	}{
		"from the host":        {"ABC", 3},
		"another dispatch":     {"XYZ", 4},
		"outside of a sandbox": {"", 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(wire.DispatchEnv, tc.dispatch)
			assert.DeepEqual(t, Arguments(args), args[:tc.want])
		})
	}
}
