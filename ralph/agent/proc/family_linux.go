package proc

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// family knows which processes descend from an agent: all descendants of this
// process but those that were there before the agent.
type family struct {
	before map[int]bool
}

// remember notes the present children and makes this process the one that
// orphans of the agent fall to.
func (f *family) remember() {
	// Where this is refused, the group and the tree under a living agent are
	// still found.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	f.before = map[int]bool{}
	for _, pid := range descendants(os.Getpid(), nil) {
		f.before[pid] = true
	}
}

// kill ends every process of the family and reaps those that fell to us.
// The process running, whose end somebody else awaits, is killed but not
// reaped; 0 means that there is none.
func (f *family) kill(running int) {
	deadline := time.Now().Add(killDeadline)
	for {
		left := 0
		for _, pid := range descendants(os.Getpid(), f.before) {
			_ = unix.Kill(pid, unix.SIGKILL)
			if pid == running {
				continue
			}
			left++
			// Fails for grandchildren; they fall to us in the next round.
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		if left == 0 || time.Now().After(deadline) {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// descendants lists the processes below root, without those of skip and what
// is below them.
func descendants(root int, skip map[int]bool) []int {
	children := map[int][]int{}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	names, _ := dir.Readdirnames(-1)
	_ = dir.Close()
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if ppid, ok := parentOf(name); ok {
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

// parentOf reads the parent's id from /proc/<pid>/stat. The program's name in
// it may contain anything, so fields count from its closing parenthesis.
func parentOf(pid string) (int, bool) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, false
	}
	_, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	if !ok {
		return 0, false
	}
	fields := bytes.Fields(rest)
	if len(fields) < 2 {
		return 0, false
	}
	ppid, err := strconv.Atoi(string(fields[1]))
	return ppid, err == nil
}
