package guest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/docker-ralph/docker-ralph/wire"
)

const procDir = "/proc"

// ticksPerSecond is the unit of start times in /proc, on every architecture of Go.
const ticksPerSecond = 100

// process is a running process of a dispatch.
type process struct {
	dispatch string
	pid      int
	start    uint64 // in ticks after boot
}

// dispatchProcesses lists the running processes of all dispatches, earliest first.
// They are identified by their environment or, before the command is executed, by the
// dispatch's record.
func dispatchProcesses(proc string, records []record) ([]process, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	boot := bootID(proc)
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() && proc == procDir {
			continue
		}
		p, err := inspect(proc, pid)
		if err != nil {
			continue // exited, or another user's
		}
		for _, r := range records {
			if r.PID == pid && r.Start == p.start && r.Boot == boot {
				p.dispatch = r.ID
			}
		}
		if p.dispatch != "" {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b process) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.pid, b.pid)) })
	return all, nil
}

func inspect(proc string, pid int) (process, error) {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return process{}, err
	}
	state, start, err := parseStat(stat)
	if err != nil {
		return process{}, err
	}
	if state == 'Z' || state == 'X' {
		return process{}, os.ErrProcessDone
	}
	environ, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return process{}, err
	}
	return process{dispatchOf(environ), pid, start}, nil
}

// dispatchOf returns the dispatch that an environment names, or "".
func dispatchOf(environ []byte) string {
	for v := range bytes.SplitSeq(environ, []byte{0}) {
		if id, ok := bytes.CutPrefix(v, []byte(wire.DispatchEnv+"=")); ok {
			return string(id)
		}
	}
	return ""
}

var errStat = errors.New("malformed process stat")

// parseStat parses a process's state and start time, in ticks after boot. The name, in
// parentheses, may contain anything.
func parseStat(stat []byte) (state byte, start uint64, err error) {
	const afterName, stateAt, startAt = 3, 3, 22 // the fields' numbers in proc(5)
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= startAt-afterName || len(fields[stateAt-afterName]) != 1 {
		return 0, 0, errStat
	}
	start, err = strconv.ParseUint(string(fields[startAt-afterName]), 10, 64)
	if err != nil {
		return 0, 0, errStat
	}
	return fields[stateAt-afterName][0], start, nil
}

// bootID identifies the current boot.
func bootID(proc string) string {
	id, err := os.ReadFile(filepath.Join(proc, "sys", "kernel", "random", "boot_id"))
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(id))
}

func bootTime(proc string) (time.Time, error) {
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the boot time: %w", err)
	}
	for line := range bytes.Lines(stat) {
		if rest, ok := bytes.CutPrefix(line, []byte("btime ")); ok {
			seconds, err := strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 64)
			if err != nil {
				return time.Time{}, fmt.Errorf("reading the boot time: %w", err)
			}
			return time.Unix(seconds, 0), nil
		}
	}
	return time.Time{}, fmt.Errorf("reading the boot time: no btime in %s", filepath.Join(proc, "stat"))
}

func (p process) since(boot time.Time) time.Time {
	// Divide first: the multiplication could overflow.
	seconds, rest := p.start/ticksPerSecond, p.start%ticksPerSecond
	return boot.Add(time.Duration(rest) * time.Second / ticksPerSecond).Add(time.Duration(min(seconds, 1<<32)) * time.Second)
}
