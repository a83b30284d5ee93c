package loop

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

const cgroupMount = "/sys/fs/cgroup"

// Cgroup holds a sandbox's resource limits and usage. Unknown values are 0.
type Cgroup struct {
	Processes    int64 // including threads
	MaxProcesses int64
	ForksRefused int64 // since the sandbox started
	MaxMemory    int64 // in bytes
	OOMKills     int64 // since the sandbox started
}

// ReadCgroup reads the sandbox's control group, version 1 or 2.
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

// cgroupUnlimited is below what version 1 shows for no limit.
const cgroupUnlimited = 1 << 60

// cgroupField reads a field of a flat keyed file.
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
