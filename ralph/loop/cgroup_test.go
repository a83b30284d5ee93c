package loop

import (
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/fs"
)

func TestRead(t *testing.T) {
	want := Cgroup{Processes: 7, MaxProcesses: 1024, ForksRefused: 3, MaxMemory: 8 << 30, OOMKills: 2}
	v1 := fs.NewDir(t, "v1",
		fs.WithDir("pids", fs.WithFile("pids.current", "7\n"), fs.WithFile("pids.max", "1024\n"), fs.WithFile("pids.events", "max 3\n")),
		fs.WithDir("memory", fs.WithFile("memory.limit_in_bytes", "8589934592\n"), fs.WithFile("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")))
	assert.DeepEqual(t, readCgroup(v1.Path()), want)
	v2 := fs.NewDir(t, "v2",
		fs.WithFile("pids.current", "7\n"), fs.WithFile("pids.max", "1024\n"), fs.WithFile("pids.events", "max 3\n"),
		fs.WithFile("memory.max", "8589934592\n"), fs.WithFile("memory.events", "low 0\noom 2\noom_kill 2\noom_group_kill 0\n"))
	assert.DeepEqual(t, readCgroup(v2.Path()), want)
	cgroupUnlimited := fs.NewDir(t, "v2", fs.WithFile("pids.max", "max\n"), fs.WithFile("memory.events", "oom_kill x\n"))
	assert.DeepEqual(t, readCgroup(cgroupUnlimited.Path()), Cgroup{})
	assert.DeepEqual(t, readCgroup("/nowhere"), Cgroup{})
}
