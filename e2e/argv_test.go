//go:build unix

package e2e

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Command lines of all processes on this machine, which must have no secrets.

// watchArgv checks the command lines of all processes on this machine, those in
// containers included, as soon as they start. The function that it returns ends
// that, and returns which of the texts were found.
func watchArgv(t *testing.T, texts ...string) (seen func() map[string]bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	look := argvs{found: map[string]bool{}, texts: texts}
	started, watching := execs(ctx)
	ended := make(chan map[string]bool, 1)
	go func() {
		look.checkAll()
		if watching {
			for pid := range started {
				look.check(strconv.Itoa(pid))
			}
			look.checkAll()
		} else {
			for again := time.NewTicker(2 * time.Millisecond); ctx.Err() == nil; <-again.C {
				look.checkAll()
			}
		}
		ended <- look.found
	}()
	t.Cleanup(cancel)
	return func() map[string]bool {
		cancel()
		return <-ended
	}
}

// argvs are the texts that are looked for in command lines.
type argvs struct {
	texts []string
	found map[string]bool
}

func (a argvs) check(pid string) {
	argv, _ := os.ReadFile("/proc/" + pid + "/cmdline") // some have ended
	for _, text := range a.texts {
		a.found[text] = a.found[text] || bytes.Contains(argv, []byte(text))
	}
}

func (a argvs) checkAll() {
	for _, pid := range processes() {
		a.check(pid)
	}
}

// processes returns the process IDs of this machine, in any order: they are
// wanted so often that sorting them counts.
func processes() []string {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = proc.Close() }()
	names, _ := proc.Readdirnames(-1)
	return slices.DeleteFunc(names, func(name string) bool { return name[0] < '0' || name[0] > '9' })
}
