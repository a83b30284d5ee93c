package guest

import (
	"testing"

	"github.com/docker-ralph/docker-ralph/wire"

	"gotest.tools/v3/assert"
)

func TestOnlyCommandsCountAsBusy(t *testing.T) {
	idle := []fakeProcess{
		{1, "ralph", "S", 1, "", "ralph\x00_init\x00"},
		{7, "ralph", "S", 10, "sABC", "/opt/ralph/bin/ralph\x00_branch\x00"},
		{18, "ralph", "S", 10, "", "/opt/ralph/bin/ralph\x00_branch\x00" + wire.DispatchMark("sXYZ") + "\x00"},
		{8, "git", "R", 11, "sDEF", "git\x00pack-objects\x00"},
		{9, "ralph", "R", 12, "", "/opt/ralph/bin/ralph\x00_dispatches\x00"},
		{10, "ralph", "R", 13, "", "/opt/ralph/bin/ralph\x00_busy\x00"},
		{17, "ralph", "S", 13, "", "/opt/ralph/bin/ralph\x00_session\x00ABC\x00"},
		{11, "sh", "Z", 14, "ABC", ""},
		{12, "sh", "X", 15, "ABC", ""},
	}
	for name, tc := range map[string]struct {
		process fakeProcess
		want    bool
	}{
		"nothing":                    {fakeProcess{13, "ralph", "S", 16, "sABC", "ralph\x00_finish\x00"}, false},
		"a loop":                     {fakeProcess{13, "ralph", "S", 16, "ABC", "ralph\x00build\x00"}, true},
		"a process of another tool":  {fakeProcess{13, "sleep", "S", 16, "", "sleep\x009\x00"}, true},
		"one that is about to start": {fakeProcess{13, "runc", "S", 16, "", "runc\x00init\x00"}, true},
		"ralph, started by hand":     {fakeProcess{13, "ralph", "S", 16, "", "ralph\x00build\x00"}, true},
		"one without a command line": {fakeProcess{13, "x", "S", 16, "", ""}, true},
	} {
		t.Run(name, func(t *testing.T) {
			busy, err := hasCommands(fakeProc(t, append(idle[:len(idle):len(idle)], tc.process)...))
			assert.NilError(t, err)
			assert.Equal(t, busy, tc.want)
		})
	}
}
