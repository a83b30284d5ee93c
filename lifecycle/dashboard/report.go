package dashboard

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/moby/sys/atomicwriter"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/watch"
	"github.com/docker-ralph/docker-ralph/wire/runlog"
)

// ReportOptions are the options of [Report].
type ReportOptions struct {
	// File is where the report is written; "-" is standard output.
	File string
	// All reports the sandboxes of this machine instead of this repository.
	All bool
}

const (
	// maxReport bounds the outputs and diffs in a report, in bytes.
	maxReport = 32 << 20
	// maxReportOutput bounds the output of a run in a report, in bytes.
	maxReportOutput = 64 << 10
)

// reportData is the data in a report. Its loops are as in the server's stream.
type reportData struct {
	State watch.State           `json:"state"`
	Loops map[string]reportLoop `json:"loops"`
}

type reportLoop struct {
	Backlog backlog        `json:"backlog"`
	Events  []runlog.Event `json:"events"`
	Outputs map[int]output `json:"outputs"`
	Diffs   map[int]diff   `json:"diffs"`
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
		s.host.Report("Warning: " + text)
	}
	data := reportData{State: state, Loops: map[string]reportLoop{}}
	left := maxReport
	for _, w := range state.Worktrees {
		for _, l := range w.Loops {
			found, err := s.report(ctx, l.Key, &left)
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
	return nil
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

// report reads a loop. It includes outputs and diffs while there is room, from the last run on.
func (s *source) report(ctx context.Context, key string, left *int) (reportLoop, error) {
	l, err := s.open(ctx, key)
	if err != nil {
		return reportLoop{}, err
	}
	defer l.Close()
	r := reportLoop{Backlog: s.backlogOf(l), Outputs: map[int]output{}, Diffs: map[int]diff{}}
	if r.Events, err = l.AllEvents(maxEvents); err != nil {
		return r, err
	}
	for _, n := range watch.Runs(r.Events) {
		if *left <= 0 {
			r.Omitted = true
			break
		}
		out, err := outputOf(l, n, maxReportOutput)
		if err != nil {
			return r, err
		}
		if out.Text != "" {
			r.Outputs[n] = out
		}
		base, head := commitsOf(r.Events, n)
		d, err := diffOf(ctx, l.worktree, base, head)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if err == nil {
			r.Diffs[n] = d
		}
		*left -= len(out.Text) + len(d.Text)
	}
	return r, nil
}
