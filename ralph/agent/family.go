package agent

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docker-ralph/docker-ralph/ralph/sysinfo"
)

// RunEnv is the variable that identifies the ralph that started a process: its PID,
// start time and PID namespace.
const RunEnv = "RALPH_RUN"

// oomScoreAdj makes the kernel kill an agent before ralph.
const oomScoreAdj = "500"

// family tracks an agent's processes: all descendants of this process except those that
// existed before the agent.
type family struct {
	before map[int]bool
}

// remember records the existing children, other than an earlier agent's, and makes this
// process the subreaper.
func (f *family) remember(cmd *exec.Cmd) {
	// Without it, the process group and a running agent's descendants are still found.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	run := runOf(os.Getpid())
	f.before = map[int]bool{}
	for _, pid := range descendants(os.Getpid(), nil) {
		if run == "" || sysinfo.Environ(sysinfo.Proc, pid, RunEnv) != run {
			f.before[pid] = true
		}
	}
	if run != "" {
		cmd.Env = append(cmd.Environ(), RunEnv+"="+run)
	}
}

// started sets the OOM score of a new agent, if permitted.
func (*family) started(pid int) {
	_ = os.WriteFile(filepath.Join(sysinfo.Proc, strconv.Itoa(pid), "oom_score_adj"), []byte(oomScoreAdj), 0)
}

// emptyScans is how many consecutive scans must find nothing: a process that starts
// another and exits can escape one scan.
const emptyScans = 3

// kill kills every process of the family and reaps the orphans. The process running, if
// not 0, is killed but not reaped: its starter waits for it.
func (f *family) kill(running int) {
	deadline := time.Now().Add(killTimeout)
	for quiet := 0; quiet < emptyScans && time.Now().Before(deadline); quiet++ {
		for _, pid := range freeze(func() []int { return descendants(os.Getpid(), f.before) }) {
			_ = unix.Kill(pid, unix.SIGKILL)
			if pid == running {
				continue
			}
			quiet = -1
			// Fails for grandchildren, which are reparented until the next round.
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// freeze stops all listed processes until no new ones appear: stopped processes cannot
// start others.
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

// freezeRounds is out of reach under a process limit.
const freezeRounds = 100

// KillLeftovers kills the processes of a dead ralph's agents in this sandbox, and returns
// their number.
func KillLeftovers() int {
	killed := map[int]bool{}
	deadline := time.Now().Add(killTimeout)
	for time.Now().Before(deadline) {
		left := freeze(leftovers)
		for _, pid := range left {
			killed[pid] = true
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if len(left) == 0 {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	return len(killed)
}

// leftovers lists processes whose ralph is dead.
func leftovers() []int {
	var found []int
	processes, _ := sysinfo.Processes(sysinfo.Proc)
	for _, pid := range processes {
		run := strings.Split(sysinfo.Environ(sysinfo.Proc, pid, RunEnv), ".")
		if len(run) != 3 || run[2] != namespace() {
			continue
		}
		if of, err := strconv.Atoi(run[0]); err != nil || runOf(of) != strings.Join(run, ".") {
			found = append(found, pid)
		}
	}
	return found
}

// namespace identifies the PID namespace: processes of a nested container are visible, but
// the PIDs in their variables belong to it.
func namespace() string {
	id, _ := os.Readlink("/proc/self/ns/pid")
	return id
}

// runOf returns the RunEnv value of a ralph, or "" if the process does not exist.
func runOf(pid int) string {
	stat := sysinfo.Stat(sysinfo.Proc, pid)
	if stat == nil || stat[sysinfo.StatState] == "Z" {
		return ""
	}
	return strconv.Itoa(pid) + "." + stat[sysinfo.StatStart] + "." + namespace()
}

// descendants lists the descendants of root, except those in skip and their descendants.
func descendants(root int, skip map[int]bool) []int {
	children := map[int][]int{}
	processes, _ := sysinfo.Processes(sysinfo.Proc)
	for _, pid := range processes {
		stat := sysinfo.Stat(sysinfo.Proc, pid)
		if stat == nil {
			continue // exited
		}
		if ppid, err := strconv.Atoi(stat[sysinfo.StatParent]); err == nil {
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
