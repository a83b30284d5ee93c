package loop

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
			Processes: cgroupValue(v1, "pids.current", ""), MaxProcesses: cgroupValue(v1, "pids.max", ""), ForksRefused: cgroupValue(v1, "pids.events", "max "),
			MaxMemory: cgroupValue(memory, "memory.limit_in_bytes", ""), OOMKills: cgroupValue(memory, "memory.oom_control", "oom_kill "),
		}
	}
	return Cgroup{
		Processes: cgroupValue(dir, "pids.current", ""), MaxProcesses: cgroupValue(dir, "pids.max", ""), ForksRefused: cgroupValue(dir, "pids.events", "max "),
		MaxMemory: cgroupValue(dir, "memory.max", ""), OOMKills: cgroupValue(dir, "memory.events", "oom_kill "),
	}
}

// cgroupUnlimited is below what version 1 shows for no limit. Version 2 shows "max".
const cgroupUnlimited = 1 << 60

// cgroupValue reads the number after key: of a flat keyed file, or of one with one number
// if the key is empty.
func cgroupValue(dir, name, key string) int64 {
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, key); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if err != nil || n > cgroupUnlimited {
				return 0
			}
			return n
		}
	}
	return 0
}
