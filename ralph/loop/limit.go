package loop

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/docker/go-units"

	"github.com/docker-ralph/docker-ralph/hint"
)

// limit is a limit of the sandbox that a run has reached.
type limit struct{ reason, remedy string }

// limitWatch compares the sandbox's limits with how they were when a run began.
type limitWatch struct {
	look  func() Cgroup // nil where nothing is known
	began Cgroup
	full  int // looks in a row that found no room for another process
}

func (l *loop) watchLimits() *limitWatch {
	w := &limitWatch{look: l.Limits}
	if w.look != nil {
		w.began = w.look()
	}
	return w
}

const (
	// processReserve is how close to the limit a sandbox is full.
	processReserve = 16
	// fullLooks is how many looks in a row have to find it full. An agent may well
	// start too much at once and come round.
	fullLooks = 2
)

// stuck says whether the agent has used up the process limit, and stays there:
// neither it nor anything else in the sandbox can do more then.
func (w *limitWatch) stuck() bool {
	if w.look == nil {
		return false
	}
	now := w.look()
	if now.MaxProcesses > 0 && now.ForksRefused > w.began.ForksRefused && now.Processes > now.MaxProcesses-processReserve {
		w.full++
	} else {
		w.full = 0
	}
	return w.full >= fullLooks
}

// reached returns the limit that a run has reached, if any. Whether that is why it
// failed is a guess, but no other reason is as likely.
func (w *limitWatch) reached(how end) *limit {
	if w.look == nil {
		return nil
	}
	switch now := w.look(); {
	case how == endProcesses || how == endItself && now.ForksRefused > w.began.ForksRefused:
		return w.processes()
	case how == endItself && now.OOMKills > w.began.OOMKills:
		return &limit{
			fmt.Sprintf("out of memory: the limit is %s", units.BytesSize(float64(now.MaxMemory))),
			"raise the limit with --memory and --recreate, or with memory under [sandbox.resources]",
		}
	}
	return nil
}

// fullDisk returns the disk without space as a limit that a run has reached.
func (l *loop) fullDisk() *limit {
	if l.FullDisk == nil {
		return nil
	}
	reason, remedy := l.FullDisk()
	if reason == "" {
		return nil
	}
	return &limit{reason, remedy}
}

func (w *limitWatch) processes() *limit {
	return &limit{
		fmt.Sprintf("process limit (%d) reached", w.began.MaxProcesses),
		"raise the limit with RALPH_PIDS and --recreate, or with pids under [sandbox.resources]",
	}
}

// explain says why a program could not be started, if that was the process limit.
func (w *limitWatch) explain(err error) error {
	if w.look == nil || w.began.MaxProcesses == 0 || !errors.Is(err, syscall.EAGAIN) {
		return err
	}
	return hint.Wrap(fmt.Errorf("%w: %s", err, w.processes().reason), "%s", w.processes().remedy)
}
