// Package cgroup reads how a sandbox stands with the limits that its engine has
// set, from the control group's files. Both versions of control groups are known.
package cgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// mounted is where an engine shows a container its control group.
const mounted = "/sys/fs/cgroup"

// State is a look at the limits. What is not known is 0.
type State struct {
	Processes    int64 // that there are, threads included
	MaxProcesses int64
	ForksRefused int64 // processes that could not be started, since the sandbox started
	MaxMemory    int64 // in bytes
	OOMKills     int64 // processes ended for lack of memory, since the sandbox started
}

// Read returns the present state.
func Read() State { return read(mounted) }

func read(dir string) State {
	v1 := filepath.Join(dir, "pids")
	if _, err := os.Stat(v1); err == nil {
		memory := filepath.Join(dir, "memory")
		return State{
			Processes: number(v1, "pids.current"), MaxProcesses: number(v1, "pids.max"), ForksRefused: field(v1, "pids.events", "max"),
			MaxMemory: number(memory, "memory.limit_in_bytes"), OOMKills: field(memory, "memory.oom_control", "oom_kill"),
		}
	}
	return State{
		Processes: number(dir, "pids.current"), MaxProcesses: number(dir, "pids.max"), ForksRefused: field(dir, "pids.events", "max"),
		MaxMemory: number(dir, "memory.max"), OOMKills: field(dir, "memory.events", "oom_kill"),
	}
}

// number reads a file with one number; "max" is no limit.
func number(dir, name string) int64 {
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(content)), 10, 64)
	if err != nil || n > unlimited {
		return 0
	}
	return n
}

// unlimited is below what the first version shows for no limit.
const unlimited = 1 << 60

// field reads one of the numbers of a file with a name before each.
func field(dir, name, key string) int64 {
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
