package guest

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/sysinfo"
	"github.com/docker-ralph/docker-ralph/wire"
)

const procDir = sysinfo.Proc

// ticksPerSecond is the unit of start times in /proc, on every architecture of Go.
const ticksPerSecond = 100

// process is a running process of a dispatch.
type process struct {
	dispatch string
	pid      int
	start    uint64 // in ticks after boot
}

// dispatchProcesses lists the running processes of all dispatches, earliest first.
func dispatchProcesses(proc string) ([]process, error) {
	pids, err := sysinfo.Processes(proc)
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var all []process
	for _, pid := range pids {
		if pid == os.Getpid() && proc == procDir {
			continue
		}
		stat := sysinfo.Stat(proc, pid)
		if stat == nil || stat[sysinfo.StatState] == "Z" || stat[sysinfo.StatState] == "X" {
			continue // exited
		}
		p := process{dispatch: dispatchOf(proc, pid), pid: pid}
		if p.start, err = strconv.ParseUint(stat[sysinfo.StatStart], 10, 64); err != nil {
			continue // malformed
		}
		if p.dispatch != "" {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b process) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.pid, b.pid)) })
	return all, nil
}

// dispatchOf returns the dispatch of a process by its environment or, for ralph, which is not dumpable, by its
// [wire.DispatchMark]; empty for none.
func dispatchOf(proc string, pid int) string {
	return cmp.Or(sysinfo.Environ(proc, pid, wire.DispatchEnv), marked(cmdline(proc, pid)))
}

// cmdline returns the arguments of a process; none if it has just ended. Unlike the environment, they are readable
// for every user.
func cmdline(proc string, pid int) []string {
	content, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cmdline"))
	if err != nil || len(content) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(content), "\x00"), "\x00")
}

// marked returns the dispatch of ralph by its last argument, or that which it is about to become; empty without a mark.
func marked(args []string) string {
	if d, err := startingDispatch(args); err == nil {
		return d.id
	}
	if len(args) < 2 || filepath.Base(args[0]) != wire.Program {
		return ""
	}
	id, found := strings.CutPrefix(args[len(args)-1], wire.DispatchMark(""))
	if !found || !validID(id) {
		return ""
	}
	return id
}

// startingDispatch returns the dispatch of "ralph _dispatch" before it has become its command.
func startingDispatch(args []string) (dispatch, error) {
	if len(args) < 2 || filepath.Base(args[0]) != wire.Program || args[1] != "_dispatch" {
		return dispatch{}, errUsage
	}
	return parseDispatch(args[2:])
}

// Arguments returns the arguments of this program without the mark of its dispatch.
func Arguments(args []string) []string {
	if id := marked(args); id != "" && id == os.Getenv(wire.DispatchEnv) {
		return args[:len(args)-1]
	}
	return args
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
