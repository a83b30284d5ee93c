package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/gitsync"
	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/watch"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// ReportOptions are the options of [Report].
type ReportOptions struct {
	// File is where the report is written; "-" is standard output. Git ignores [DefaultReport].
	File string
	// All reports the sandboxes of this machine instead of this repository.
	All bool
}

// DefaultReport is the file of a report without another name, in the current directory.
const DefaultReport = gitsync.ReportFile

const (
	// maxReport bounds the events, outputs and diffs in a report, in bytes of JSON.
	maxReport = 16 << 20
	// maxReportRuns bounds the runs with output and a diff, of all loops.
	maxReportRuns = 1000
	// maxReportOutput bounds the output of a run in a report, in bytes.
	maxReportOutput = 64 << 10
)

// reportData is the data in a report. Its loops are as in the server's stream.
type reportData struct {
	State watch.State           `json:"state"`
	Loops map[string]reportLoop `json:"loops"`
}

type reportLoop struct {
	Backlog json.RawMessage         `json:"backlog"`
	Events  []json.RawMessage       `json:"events"`
	Outputs map[int]json.RawMessage `json:"outputs"`
	Diffs   map[int]json.RawMessage `json:"diffs"`
	// Omitted says that the report has no more room for outputs and diffs.
	Omitted bool `json:"omitted,omitempty"`
}

// Report writes the dashboard as one file, which needs no server.
func Report(ctx context.Context, h host.Host, opts ReportOptions) error {
	return newSource(h, opts.All).writeReport(ctx, opts.File)
}

func (s *source) writeReport(ctx context.Context, file string) error {
	state, err := s.State(ctx)
	if err != nil {
		return err
	}
	for _, text := range state.Warnings {
		if !strings.HasPrefix(text, "Hint: ") {
			text = "Warning: " + text
		}
		s.host.Report(text)
	}
	data := reportData{State: state, Loops: map[string]reportLoop{}}
	left := room{budget(maxReport), maxReportRuns}
	for _, w := range state.Worktrees {
		for _, l := range w.Loops {
			found, err := s.report(ctx, state, l.Key, &left)
			if err != nil {
				return err
			}
			data.Loops[l.Key] = found
		}
	}
	content, err := standalone(data)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if file == "-" {
		_, err = s.host.Stdout.Write(content)
	} else {
		err = writeFile(s.host, file, content)
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if file != "-" {
		s.host.Report("Wrote the report to " + file)
	}
	if file == DefaultReport {
		s.hideReport(ctx)
	}
	return nil
}

// hideReport has git ignore the report in the current directory: it would be one of the user's
// uncommitted changes, which commands report, refuse or send to the sandbox.
func (s *source) hideReport(ctx context.Context) {
	at, err := s.host.Here(ctx)
	if !at.Inside {
		return
	}
	changed := false
	if err == nil {
		changed, err = at.Worktree.Exclude(ctx, filepath.Join(s.host.Dir, DefaultReport))
	}
	switch {
	case err != nil:
		s.host.Warn(fmt.Errorf("excluding %s from commits: %w", DefaultReport, err))
	case changed:
		s.host.Report(fmt.Sprintf("Git ignores %s now (info/exclude)", DefaultReport))
	}
}

// room is what is left for loops in a report.
type room struct {
	budget
	runs int
}

// budget is how many bytes are left.
type budget int

// encode returns a value in JSON, and false if it exceeds the budget. JSON can be many times as long as
// a text, because of its escapes.
func (b *budget) encode(value any) (_ json.RawMessage, fits bool) {
	content, err := json.Marshal(value)
	if err != nil || len(content) > int(*b) {
		return nil, false
	}
	*b -= budget(len(content))
	return content, true
}

func writeFile(h host.Host, file string, content []byte) error {
	if !filepath.IsAbs(file) {
		file = filepath.Join(h.Dir, file)
	}
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() { // such as /dev/null
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		_, err = f.Write(content)
		return err
	}
	return atomicwriter.WriteFile(file, content, 0o644)
}

// report reads a loop. It includes events, outputs and diffs while there is room, from the last run on.
func (s *source) report(ctx context.Context, state watch.State, key string, left *room) (reportLoop, error) {
	l, err := openIn(state, key)
	if err != nil {
		return reportLoop{}, err
	}
	defer l.Close()
	r := reportLoop{Outputs: map[int]json.RawMessage{}, Diffs: map[int]json.RawMessage{}}
	var fits bool
	if r.Backlog, fits = left.encode(s.backlogOf(ctx, l)); !fits {
		r.Backlog, _ = left.encode(backlog{Error: "The report has no room for the backlog."})
	}
	events, err := s.reportEvents(l, &r, &left.budget)
	if err != nil {
		return r, err
	}
	for _, n := range watch.Runs(events) {
		if left.runs--; r.Omitted || left.runs < 0 {
			r.Omitted = true
			break
		}
		out, err := outputOf(l, n, maxReportOutput)
		if err != nil {
			return r, err
		}
		if out.Text != "" {
			content, fits := left.encode(out)
			if !fits {
				r.Omitted = true
				break
			}
			r.Outputs[n] = content
		}
		base, head := runlog.CommitsOf(events, n)
		d, err := diffOf(ctx, l.worktree, base, head)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if err == nil {
			content, fits := left.encode(d)
			if !fits {
				r.Omitted = true
				break
			}
			r.Diffs[n] = content
		}
	}
	return r, nil
}

// reportEvents adds the newest events to the report of a loop, and returns them.
func (s *source) reportEvents(l loop, r *reportLoop, left *budget) ([]runlog.Event, error) {
	events, cut, err := l.NewestEvents(maxEvents)
	if err != nil {
		return nil, err
	}
	room := min(*left, maxEvents)
	*left -= room
	for i, e := range slices.Backward(events) {
		content, fits := room.encode(e)
		if !fits {
			events, cut = events[i+1:], true
			break
		}
		r.Events = append(r.Events, content)
	}
	*left += room
	slices.Reverse(r.Events)
	if cut {
		s.host.Report(fmt.Sprintf("Warning: older events of loop %s are left out of the report (limits: %d MiB per loop, %d MiB in total)", l.loop.ID, maxEvents>>20, maxReport>>20))
	}
	return events, nil
}
