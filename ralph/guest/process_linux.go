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

// procDir is where Linux shows its processes.
const procDir = "/proc"

// ticksPerSecond is what /proc counts start times in, on every architecture
// that Go runs on.
const ticksPerSecond = 100

// process is a living process of a dispatch.
type process struct {
	dispatch string
	pid      int
	start    uint64 // in ticks after boot
}

// dispatchProcesses lists the living processes of all dispatches, the earliest
// first. A process is known by its environment, which it has from its start;
// the first one of a dispatch that has just begun, by its note.
func dispatchProcesses(proc string, notes []note) ([]process, error) {
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
			continue // ended meanwhile, or another user's
		}
		for _, n := range notes {
			if n.PID == pid && n.Start == p.start && n.Boot == boot {
				p.dispatch = n.ID
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

var errStat = errors.New("unreadable stat of a process")

// parseStat reads the state and the start time, in ticks after boot, of a
// process. Its name, in parentheses, may contain anything.
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

// bootID tells apart start times of before and after a restart.
func bootID(proc string) string {
	id, err := os.ReadFile(filepath.Join(proc, "sys", "kernel", "random", "boot_id"))
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(id))
}

// bootTime returns when the system started.
func bootTime(proc string) (time.Time, error) {
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return time.Time{}, fmt.Errorf("reading when the sandbox started: %w", err)
	}
	for line := range bytes.Lines(stat) {
		if rest, ok := bytes.CutPrefix(line, []byte("btime ")); ok {
			seconds, err := strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 64)
			if err != nil {
				return time.Time{}, fmt.Errorf("reading when the sandbox started: %w", err)
			}
			return time.Unix(seconds, 0), nil
		}
	}
	return time.Time{}, fmt.Errorf("reading when the sandbox started: no btime in %s", filepath.Join(proc, "stat"))
}

// since returns when the process started.
func (p process) since(boot time.Time) time.Time {
	// Not multiplied first, lest a strange number overflows.
	seconds, rest := p.start/ticksPerSecond, p.start%ticksPerSecond
	return boot.Add(time.Duration(rest) * time.Second / ticksPerSecond).Add(time.Duration(min(seconds, 1<<32)) * time.Second)
}
