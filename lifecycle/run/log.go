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
	// endTimeout is how long an engine may take to learn that a container has
	// ended, after what ran in it: some runtimes are slow to tell.
	endTimeout = 2 * time.Second
	// logTimeout is how long an engine may take to hand logs out.
	logTimeout = 20 * time.Second
)

// reportEnded shows why a command has failed if its sandbox, or the proxy of that, has
// ended: it prints the last lines of the log, and keeps all of it. It runs before a
// sandbox for one command is removed.
func reportEnded(ctx context.Context, h host.Host, driver lifecycle.Driver, sb lifecycle.Sandbox, code int, err error) {
	d, ok := driver.(*container.Driver)
	if !ok || sb.Name == "" || errors.Is(err, lifecycle.ErrDetached) || err == nil && code == 0 {
		return
	}
	patience := time.Duration(0)
	if ctx.Err() == nil && (err != nil || code == 128 || code == 137) { // which is not a loop's own
		patience = endTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	reportLost(ctx, h, d, sb, patience)
}

// reportLost shows what of a sandbox has ended, or ends before the timeout.
func reportLost(ctx context.Context, h host.Host, d *container.Driver, sb lifecycle.Sandbox, patience time.Duration) {
	for _, p := range lost(ctx, d, sb, patience) {
		if p.Gone {
			h.Report(fmt.Sprintf("Warning: %s of %s was removed with its log", p.What, sb.Name))
			continue
		}
		reportLog(ctx, h, d, p)
	}
}

// reportFailed shows the logs of a sandbox that could not be brought up, and of its
// proxy.
func reportFailed(ctx context.Context, h host.Host, driver lifecycle.Driver, sb lifecycle.Sandbox) {
	d, ok := driver.(*container.Driver)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	lost(ctx, d, sb, endTimeout/4)
	parts, err := d.Parts(ctx, sb)
	if err != nil {
		return // the engine is out of reach, which the failure itself tells
	}
	for _, p := range parts {
		if !p.Gone {
			reportLog(ctx, h, d, p)
		}
	}
}

// lost waits for something of a sandbox to end, as long as patience lasts, and
// returns what has. It is no reason to fail when nobody can tell.
func lost(ctx context.Context, d *container.Driver, sb lifecycle.Sandbox, patience time.Duration) []container.Part {
	for end := time.Now().Add(patience); ; {
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

// reportLog shows how a container has ended and the last lines of its log, and keeps the
// log.
func reportLog(ctx context.Context, h host.Host, d *container.Driver, p container.Part) {
	var last Tail
	err := d.Log(ctx, p, true, &last)
	if err == nil && p.Ended == "" && last.empty() {
		return
	}
	ending := fmt.Sprintf("Note: %s %s runs", p.What, p.Name)
	if p.Ended != "" {
		ending = fmt.Sprintf("Warning: %s %s has ended (%s)", p.What, p.Name, p.Ended)
	}
	switch {
	case err != nil:
		h.Report(fmt.Sprintf("%s, and its log cannot be read: %v", ending, err))
		return
	case last.empty():
		h.Report(ending + ", without a word in its log")
		return
	}
	h.Report(ending + ". The last lines of its log:")
	last.show(h.Stderr)
	path, err := keepLog(ctx, h, d, p)
	if err != nil {
		h.Report(fmt.Sprintf("Warning: keeping the log: %v", err))
		return
	}
	h.Report("All of it is in " + path)
	pruneLogs(logDir(h), logsMax, time.Now())
}

// logDir holds the logs that are kept, the youngest with the greatest name.
func logDir(h host.Host) string { return filepath.Join(h.StateDir, "logs") }

// keepLog writes all of a log to a file of its own.
func keepLog(ctx context.Context, h host.Host, d *container.Driver, p container.Part) (path string, err error) {
	if err := os.MkdirAll(logDir(h), 0o700); err != nil {
		return "", fmt.Errorf("creating the log folder: %w", err)
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

// tailMax is how much of a log's end is looked at, in bytes.
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

// show writes the last lines, without what would command a terminal.
func (t *Tail) show(w io.Writer) {
	lines := strings.Split(strings.TrimRight(string(t.End), "\r\n"), "\n")
	if t.Cut && len(lines) > 1 {
		lines = lines[1:] // a piece of one
	}
	lines = lines[max(0, len(lines)-logLines):]
	clean := termsafe.NewWriter(w)
	for _, line := range lines {
		line = strings.ReplaceAll(line, "\r", "") // or else it would hide what is before it
		if strings.Contains(line, "\x1b") {
			line += "\x1b[m" // its colour ends with it
		}
		_, _ = fmt.Fprintf(clean, "  %s\n", line)
	}
}
