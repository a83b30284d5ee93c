package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"

	"github.com/docker-ralph/docker-ralph/lifecycle"
	"github.com/docker-ralph/docker-ralph/lifecycle/container"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

const (
	// logLines is how many lines of a log are shown.
	logLines = 10
	// logsMax is how many logs are kept.
	logsMax = 10
	// logMax bounds each, in bytes. The engine keeps less.
	logMax = 32 << 20
	// endTimeout is how long an engine may take to report that a container has ended:
	// some runtimes are slow.
	endTimeout = 2 * time.Second
	// logTimeout bounds reading logs from an engine.
	logTimeout = 20 * time.Second
)

// reportEnded shows why a command has failed if its sandbox or proxy has ended: it prints the
// last lines of the log, and saves all of it.
func reportEnded(ctx context.Context, h host.Host, driver lifecycle.Driver, sb lifecycle.Sandbox, code int, err error) {
	d, ok := driver.(*container.Driver)
	if !ok || sb.Name == "" || continues(err) || err == nil && code == 0 {
		return
	}
	timeout := time.Duration(0)
	if ctx.Err() == nil && (err != nil || code == 128 || code == 137) { // codes that no loop returns
		timeout = endTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	reportLost(ctx, h, d, sb, timeout)
}

// reportLost reports parts of a sandbox that have ended, or end before the timeout.
func reportLost(ctx context.Context, h host.Host, d *container.Driver, sb lifecycle.Sandbox, timeout time.Duration) {
	for _, p := range waitEnded(ctx, d, sb, timeout) {
		if p.Gone {
			h.Report(fmt.Sprintf("Warning: the %s of %s was removed with its log", p.What, sb.Name))
			continue
		}
		reportLog(ctx, h, d, p)
	}
}

// reportFailed shows the logs of a sandbox that could not be started, and of its proxy.
func reportFailed(ctx context.Context, h host.Host, driver lifecycle.Driver, sb lifecycle.Sandbox) {
	d, ok := driver.(*container.Driver)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	waitEnded(ctx, d, sb, endTimeout/4)
	parts, err := d.Parts(ctx, sb)
	if err != nil {
		return // the failure itself says that the engine is unreachable
	}
	for _, p := range parts {
		if !p.Gone {
			reportLog(ctx, h, d, p)
		}
	}
}

// waitEnded returns the parts of a sandbox that have ended. Without any, it waits for one until
// the timeout.
func waitEnded(ctx context.Context, d *container.Driver, sb lifecycle.Sandbox, timeout time.Duration) []container.Part {
	for end := time.Now().Add(timeout); ; {
		parts, err := d.Parts(ctx, sb)
		parts = slices.DeleteFunc(parts, func(p container.Part) bool { return !p.Gone && p.Ended == "" })
		if err != nil || len(parts) > 0 || time.Now().After(end) {
			return parts
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// reportLog shows how a container has ended and the last lines of its log, and saves the log.
func reportLog(ctx context.Context, h host.Host, d *container.Driver, p container.Part) {
	var last Tail
	err := d.Log(ctx, p, true, &last)
	if err == nil && p.Ended == "" && last.empty() {
		return
	}
	ending := fmt.Sprintf("Note: %s %s runs", p.What, p.Name)
	if p.Ended != "" {
		ending = fmt.Sprintf("Warning: %s %s %s", p.What, p.Name, p.Ended)
	}
	switch {
	case err != nil:
		h.Report(fmt.Sprintf("%s, and its log cannot be read: %v", ending, err))
		return
	case last.empty():
		h.Report(ending + ", without output in its log")
		return
	}
	h.Report(ending + ". The last lines of its log:")
	last.show(h.Stderr)
	path, err := saveLog(ctx, h, d, p)
	if err != nil {
		h.Warn(fmt.Errorf("saving the log: %w", err))
		return
	}
	h.Report("All of it is in " + path)
	pruneLogs(logDir(h), logsMax, time.Now())
}

// logDir has the saved logs, in the order of their names.
func logDir(h host.Host) string { return filepath.Join(h.StateDir, "logs") }

// saveLog writes a log to a new file.
func saveLog(ctx context.Context, h host.Host, d *container.Driver, p container.Part) (path string, err error) {
	if err := os.MkdirAll(logDir(h), 0o700); err != nil {
		return "", fmt.Errorf("creating the log directory: %w", err)
	}
	path = filepath.Join(logDir(h), time.Now().UTC().Format("20060102T150405.000000Z")+"-"+p.Name+".log")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("creating a log file: %w", err)
	}
	err = errors.Join(d.Log(ctx, p, false, &lifecycle.Limited{To: file, Left: logMax}), file.Close())
	if err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	return path, nil
}

// tailMax bounds the end of a log that is read, in bytes.
const tailMax = 16 << 10

// Tail keeps the end of what is written.
type Tail struct {
	End []byte
	Cut bool // something was before it
}

func (t *Tail) Write(p []byte) (int, error) {
	t.End = append(t.End, p...)
	if over := len(t.End) - tailMax; over > 0 {
		t.End, t.Cut = append([]byte(nil), t.End[over:]...), true
	}
	return len(p), nil
}

func (t *Tail) empty() bool { return strings.TrimSpace(string(t.End)) == "" }

// show writes the last lines, safe for a terminal.
func (t *Tail) show(w io.Writer) {
	lines := strings.Split(strings.TrimRight(string(t.End), "\r\n"), "\n")
	if t.Cut && len(lines) > 1 {
		lines = lines[1:] // incomplete
	}
	lines = lines[max(0, len(lines)-logLines):]
	clean := termsafe.NewWriter(w)
	for _, line := range lines {
		line = strings.ReplaceAll(line, "\r", "") // it would hide the rest of the line
		if strings.Contains(line, "\x1b") {
			line += "\x1b[m" // reset the color
		}
		_, _ = fmt.Fprintf(clean, "  %s\n", line)
	}
}
