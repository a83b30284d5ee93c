package loop

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// cgroupMount is where an engine shows a container its control group.
const cgroupMount = "/sys/fs/cgroup"

// Cgroup is how a sandbox stands with the limits that its engine has set. What is not
// known is 0.
type Cgroup struct {
	Processes    int64 // that there are, threads included
	MaxProcesses int64
	ForksRefused int64 // processes that could not be started, since the sandbox started
	MaxMemory    int64 // in bytes
	OOMKills     int64 // processes ended for lack of memory, since the sandbox started
}

// ReadCgroup reads the files of the sandbox's control group, of either version.
func ReadCgroup() Cgroup { return readCgroup(cgroupMount) }

func readCgroup(dir string) Cgroup {
	v1 := filepath.Join(dir, "pids")
	if _, err := os.Stat(v1); err == nil {
		memory := filepath.Join(dir, "memory")
		return Cgroup{
			Processes: cgroupNumber(v1, "pids.current"), MaxProcesses: cgroupNumber(v1, "pids.max"), ForksRefused: cgroupField(v1, "pids.events", "max"),
			MaxMemory: cgroupNumber(memory, "memory.limit_in_bytes"), OOMKills: cgroupField(memory, "memory.oom_control", "oom_kill"),
		}
	}
	return Cgroup{
		Processes: cgroupNumber(dir, "pids.current"), MaxProcesses: cgroupNumber(dir, "pids.max"), ForksRefused: cgroupField(dir, "pids.events", "max"),
		MaxMemory: cgroupNumber(dir, "memory.max"), OOMKills: cgroupField(dir, "memory.events", "oom_kill"),
	}
}

// cgroupNumber reads a file with one number; "max" is no limit.
func cgroupNumber(dir, name string) int64 {
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(content)), 10, 64)
	if err != nil || n > cgroupUnlimited {
		return 0
	}
	return n
}

// cgroupUnlimited is below what the first version shows for no limit.
const cgroupUnlimited = 1 << 60

// cgroupField reads one of the numbers of a file with a name before each.
func cgroupField(dir, name, key string) int64 {
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(content) {
		if value, ok := bytes.CutPrefix(line, []byte(key+" ")); ok {
			n, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}
