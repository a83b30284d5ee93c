package agent

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// RunEnv is the variable by which processes of a run are known when the ralph that
// started it is gone: its process id, start time and PID namespace.
const RunEnv = "RALPH_RUN"

// outOfMemory makes the kernel end an agent before the ralph that watches it.
const outOfMemory = "500"

// family knows which processes descend from an agent: all descendants of this
// process but those that were there before the agent.
type family struct {
	before map[int]bool
}

// remember notes the present children and makes this process the one that
// orphans of the agent fall to. What an earlier agent has left is not among them.
func (f *family) remember(cmd *exec.Cmd) {
	// Where this is refused, the group and the tree under a living agent are
	// still found.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	run := runOf(os.Getpid())
	f.before = map[int]bool{}
	for _, pid := range descendants(os.Getpid(), nil) {
		if run == "" || environ(pid, RunEnv) != run {
			f.before[pid] = true
		}
	}
	if run != "" {
		cmd.Env = append(cmd.Environ(), RunEnv+"="+run)
	}
}

// started adjusts the process of an agent that has just started.
func (*family) started(pid int) {
	// Where this is refused, the kernel ends the biggest process.
	_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), "oom_score_adj"), []byte(outOfMemory), 0)
}

// quietLooks is how many looks in a row have to find nothing: a process that
// starts another and ends can escape one look, as processes are listed one by one.
const quietLooks = 3

// kill ends every process of the family and reaps those that fell to us.
// The process running, whose end somebody else awaits, is killed but not
// reaped; 0 means that there is none.
func (f *family) kill(running int) {
	deadline := time.Now().Add(killDeadline)
	for quiet := 0; quiet < quietLooks && time.Now().Before(deadline); quiet++ {
		for _, pid := range freeze(func() []int { return descendants(os.Getpid(), f.before) }) {
			_ = unix.Kill(pid, unix.SIGKILL)
			if pid == running {
				continue
			}
			quiet = -1
			// Fails for grandchildren; they fall to us in the next round.
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// freeze stops all processes of a list, until the list holds no new ones: what is
// stopped starts no others while it is being ended.
func freeze(list func() []int) []int {
	stopped := map[int]bool{}
	for range freezeRounds {
		fresh := 0
		for _, pid := range list() {
			if !stopped[pid] {
				stopped[pid] = true
				fresh++
				_ = unix.Kill(pid, unix.SIGSTOP)
			}
		}
		if fresh == 0 {
			break
		}
	}
	return slices.Collect(maps.Keys(stopped))
}

// freezeRounds is a bound that nothing reaches while the process limit holds.
const freezeRounds = 100

// EndLeftovers ends what the agents of a ralph that is gone, e.g. killed, have
// left running in this sandbox, and returns how many processes that were.
func EndLeftovers() int {
	ended := map[int]bool{}
	deadline := time.Now().Add(killDeadline)
	for time.Now().Before(deadline) {
		left := freeze(leftovers)
		for _, pid := range left {
			ended[pid] = true
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if len(left) == 0 {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	return len(ended)
}

// leftovers lists processes of runs whose ralph has ended.
func leftovers() []int {
	var found []int
	for _, pid := range processes() {
		run := strings.Split(environ(pid, RunEnv), ".")
		if len(run) != 3 || run[2] != namespace() {
			continue
		}
		if of, err := strconv.Atoi(run[0]); err != nil || runOf(of) != strings.Join(run, ".") {
			found = append(found, pid)
		}
	}
	return found
}

// namespace identifies the processes that have their ids from the same place. Those
// of a container inside are seen from here, but their variables name other ids.
func namespace() string {
	id, _ := os.Readlink("/proc/self/ns/pid") // without it all are taken for our own
	return id
}

// runOf names a ralph, or is empty if there is no such process.
func runOf(pid int) string {
	fields := statOf(pid)
	if len(fields) <= startField || fields[0] == "Z" {
		return ""
	}
	return strconv.Itoa(pid) + "." + fields[startField] + "." + namespace()
}

// environ returns a variable that a process was started with. That of a zombie, or
// of another user's process, cannot be read.
func environ(pid int, name string) string {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
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

// processes lists the ids of all processes.
func processes() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	names, _ := dir.Readdirnames(-1)
	_ = dir.Close()
	var all []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// descendants lists the processes below root, without those of skip and what
// is below them.
func descendants(root int, skip map[int]bool) []int {
	children := map[int][]int{}
	for _, pid := range processes() {
		fields := statOf(pid)
		if len(fields) <= parentField {
			continue // ended meanwhile
		}
		if ppid, err := strconv.Atoi(fields[parentField]); err == nil {
			children[ppid] = append(children[ppid], pid)
		}
	}
	var found []int
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, pid := range children[queue[0]] {
			if !skip[pid] {
				found = append(found, pid)
				queue = append(queue, pid)
			}
		}
	}
	return found
}

// Places in what follows a process's name in /proc/<pid>/stat, see proc(5).
const (
	parentField = 1
	startField  = 19
)

// statOf returns what follows a process's name in /proc/<pid>/stat, beginning
// with its state. The name may contain anything, so fields count from its closing
// parenthesis.
func statOf(pid int) []string {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil
	}
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}
