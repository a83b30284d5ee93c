// Package sysinfo reads the state of processes and disks.
package sysinfo

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Proc is the directory of the running system's processes.
const Proc = "/proc"

// Indexes of the fields of [Stat], see proc(5).
const (
	StatState  = 0 // Z is a zombie, X is dead
	StatParent = 1
	StatStart  = 19 // in ticks after boot
)

// Processes lists the PIDs in proc.
func Processes(proc string) ([]int, error) {
	dir, err := os.Open(proc)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	var all []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			all = append(all, pid)
		}
	}
	return all, err
}

// Stat returns the fields after the process name in PID/stat, or nil if the process has
// exited. The name may contain anything up to the last parenthesis.
func Stat(proc string, pid int) []string {
	stat, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= StatStart {
		return nil
	}
	return fields
}

// Environ returns a variable of a process's initial environment, or "" if unreadable.
func Environ(proc string, pid int, name string) string {
	content, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "environ"))
	if err != nil {
		return ""
	}
	for v := range bytes.SplitSeq(content, []byte{0}) {
		if value, ok := bytes.CutPrefix(v, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}
