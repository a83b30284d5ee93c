package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/docker-ralph/docker-ralph/wire/runlog"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

// report prints the result as JSON and returns the exit code.
func (o Options) report(result outcome) int {
	code := result.report.Stop.ExitCode()
	iterations := result.report.Iterations
	if iterations == nil {
		iterations = []runlog.Iteration{}
	}
	printed := runlog.Report{Stop: string(result.report.Stop), ExitCode: code, Log: result.log, Iterations: iterations, Totals: result.report.Totals}
	if result.err != nil {
		printed.Error = result.err.Error()
	}
	out := json.NewEncoder(o.Stdout)
	out.SetEscapeHTML(false)
	if err := out.Encode(printed); err != nil {
		o.complain(fmt.Sprintf("writing the report: %s", err))
		return max(code, exitFailure)
	}
	return code
}

// title describes the session at a terminal.
func (j *job) title(s *agentEnv) string {
	text := fmt.Sprintf("ralph %s: %s", j.session.Mode, j.adapter.Name())
	if model := j.adapter.Model(j.session); model != "" {
		text += " (" + model + ")"
	}
	if s.branch != "" {
		text += " on branch " + s.branch
	}
	if j.flags.dryRun {
		text += ", without changing the backlog (--dry-run)"
	}
	if j.flags.danger {
		text += ", without permission checks (--danger)"
	}
	return termsafe.Line(text)
}

// banner prints the session's settings.
func (o Options) banner(j *job, s *agentEnv, stdout io.Writer) {
	adapter, as, flags := j.adapter, j.session, j.flags
	var b strings.Builder
	line := func(label, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s%s\n", label, value)
		}
	}
	rule := strings.Repeat("━", 40) + "\n"
	b.WriteString(rule)
	line("Mode:   ", string(as.Mode))
	if flags.dryRun {
		line("Dry run: ", "the backlog is not changed")
	}
	line("Prompt: ", adapter.Prompt(as))
	b.WriteString("Branch: " + s.branch + "\n")
	safe := "yes"
	if flags.danger {
		safe = "NO (--dangerously-skip-permissions)"
	}
	line("Safe:   ", safe)
	line("Backend: ", adapter.Backend(as))
	line("Agent:  ", s.ID)
	if model := adapter.Model(as); as.Model != "" && model != "" {
		line("Model:  ", as.Model+" ("+model+")")
	}
	switch n := flags.maxIterations; {
	case n == 1:
		line("Max:    ", "1 iteration")
	case n > 1:
		line("Max:    ", fmt.Sprintf("%d iterations", n))
	}
	b.WriteString(rule)
	_, _ = fmt.Fprint(stdout, b.String())
	if flags.model != "" && adapter.Model(as) == "" {
		_, _ = fmt.Fprintf(o.Stderr, "Warning: --model is ignored: agent %s has no model\n", adapter.Name())
	}
}
