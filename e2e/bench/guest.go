//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/backlog"
)

// guest measures ralph itself, as a process and from within.
func (b *bench) guest() error {
	program, err := filepath.Abs(filepath.Join("bin", "linux-"+runtime.GOARCH, "ralph"))
	if err != nil {
		return err
	}
	repo := b.repo
	defer func() { b.repo = repo }()
	b.repo = filepath.Join(b.dir, "guest")
	if err := os.MkdirAll(filepath.Join(b.repo, "specs"), 0o755); err != nil {
		return err
	}
	if err := b.repository(b.repo, "guest"); err != nil {
		return err
	}
	for i := range runs + 2 {
		if _, err := b.time(program, "task", "create", fmt.Sprintf("a/%02d", i), "Task"); err != nil {
			return err
		}
	}
	bare, err := b.median("sqlite3", filepath.Join(".ralph", "tasks.db"), "SELECT count(*) FROM tasks")
	if errors.Is(err, exec.ErrNotFound) {
		bare, err = 0, nil // a peer to look at, not one that is needed
	}
	if err != nil {
		return err
	}
	for _, m := range []struct {
		what string
		args []string
		goal time.Duration
	}{
		{"ralph task claim", []string{"task", "claim"}, 12 * time.Millisecond},
		{"ralph task list", []string{"task", "list"}, 8 * time.Millisecond},
	} {
		d, err := b.median(program, m.args...)
		if err != nil {
			return err
		}
		beside := ""
		if bare > 0 {
			beside = fmt.Sprintf(", bare sqlite3 %s, ratio %.1f", ms(bare), float64(d)/float64(bare))
		}
		fmt.Printf("%-35s %s%s (goal: at most %s)\n", m.what, ms(d), beside, ms(m.goal))
	}
	if err := b.memory(program); err != nil {
		return err
	}
	return b.large(program)
}

// median runs a command several times.
func (b *bench) median(name string, args ...string) (time.Duration, error) {
	var all []time.Duration
	for range runs {
		d, err := b.time(name, args...)
		if err != nil {
			return 0, err
		}
		all = append(all, d)
	}
	return median(all), nil
}

// large measures a backlog of 10,000 tasks.
func (b *bench) large(program string) error {
	const tasks = 10000
	store, err := backlog.Open(b.ctx, filepath.Join(b.repo, ".ralph", "tasks.db"), backlog.Scope{Repo: "bench/guest", Branch: "bench"})
	if err != nil {
		return err
	}
	var plan strings.Builder
	for i := range tasks {
		fmt.Fprintf(&plan, "{\"id\":\"t/%05d\",\"t\":\"Task %d\",\"p\":%d,\"spec\":\"t.md\",\"steps\":[\"one\",\"two\"]}\n", i, i, i%4)
	}
	if _, err := store.Sync(b.ctx, strings.NewReader(plan.String())); err != nil {
		return errors.Join(err, store.Close())
	}
	const claims = 3000
	var claiming time.Duration
	for range claims {
		start := time.Now()
		task, err := store.Claim(b.ctx, backlog.ClaimOptions{Agent: "3c9e", Lease: time.Hour})
		claiming += time.Since(start)
		if err == nil { // as agents do, not counted
			err = store.Done(b.ctx, task.Slug, "")
		}
		if err != nil {
			return errors.Join(err, store.Close())
		}
	}
	fmt.Printf("claims within one process           %.0f per second (goal: at least 2000)\n", claims/claiming.Seconds())
	if err := store.Close(); err != nil {
		return err
	}
	d, err := b.median(program, "task", "list")
	if err == nil {
		fmt.Printf("ralph task list of 10,000 tasks     %s (goal: at most 60 ms)\n", ms(d))
	}
	return err
}

// memory measures the loop while its agent prints 100 MB, without a newline
// and as events.
func (b *bench) memory(program string) error {
	line := `{"type":"user","message":{"content":"` + strings.Repeat("x", 1<<20) + `"}}`
	for _, m := range []struct{ what, agent string }{
		{"as one line", "head -c 100000000 /dev/zero | tr '\\0' x"},
		{"as events of 1 MB", "head -c 100 /dev/zero | tr '\\0' '\\n' | while read -r _; do cat line; done"},
	} {
		config := "[agent]\nname = \"loud\"\n[agents.loud]\ncommand = [\"sh\", \"-c\", '''" + m.agent + "''']\nstream = \"claude\"\n"
		err := errors.Join(
			os.WriteFile(filepath.Join(b.repo, "specs", "a.md"), []byte("A\n"), 0o600),
			os.WriteFile(filepath.Join(b.repo, "line"), []byte(line+"\n"), 0o600),
			os.WriteFile(filepath.Join(b.repo, "ralph.toml"), []byte(config), 0o600))
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(b.ctx, program, "build", "--danger", "-n", "1")
		cmd.Dir = b.repo
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("measuring memory: %w\n%s", err, out)
		}
		usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		if !ok {
			return errors.New("this system does not say what a process has used")
		}
		fmt.Printf("%-35s %.1f MB (goal: at most 40 MB)\n", "memory, 100 MB "+m.what, float64(usage.Maxrss)/1024)
	}
	return nil
}
