package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/docker-ralph/docker-ralph/ralph/agent"
	"github.com/docker-ralph/docker-ralph/ralph/help"
	"github.com/docker-ralph/docker-ralph/ralph/loop"
	"github.com/docker-ralph/docker-ralph/ralph/prompt"
)

// loop carries out plan and build.
func (o Options) loop(ctx context.Context, mode agent.Mode, args []string) int {
	flags, err := parseLoopFlags(mode, args)
	switch {
	case err != nil:
		o.complain(err.Error())
		return exitFailure
	case flags.help:
		_, _ = fmt.Fprint(o.Stdout, help.Text(string(mode)))
		return exitOK
	}
	adapter, as, timeout, err := chooseAgent(ctx, mode, flags)
	if err != nil {
		o.complain(err.Error())
		return exitFailure
	}
	if !hasSpecs() {
		_, _ = fmt.Fprintln(o.Stdout, "Error: No specs found. Run /ralph-spec first to generate specs in ./specs/")
		return exitFailure
	}
	if err := adapter.Check(as); err != nil {
		o.complain(err.Error())
		return exitFailure
	}
	stop, err := o.runSession(ctx, adapter, as, flags, timeout)
	if err != nil {
		o.complain(err.Error())
	}
	switch {
	case stop == loop.Interrupted:
		return exitInterrupted
	case stop == loop.TimedOut:
		return exitTimedOut
	case err != nil:
		return exitFailure
	default:
		return exitOK
	}
}

// chooseAgent combines the configuration and the flags.
func chooseAgent(ctx context.Context, mode agent.Mode, flags loopFlags) (agent.Adapter, agent.Session, time.Duration, error) {
	guest, err := configuration(ctx)
	if err != nil {
		return nil, agent.Session{}, 0, err
	}
	adapter, err := agent.Lookup(guest.Agent)
	if err != nil {
		return nil, agent.Session{}, 0, err
	}
	as := agent.Session{
		Mode: mode, Model: flags.model, Danger: flags.danger,
		Sandboxed: guest.Sandboxed, Bypass: guest.Permissions == "bypass",
		Getenv: os.Getenv,
	}
	if as.Model == "" {
		as.Model = guest.Model
	}
	return adapter, as, time.Duration(guest.TimeoutSeconds) * time.Second, nil
}

// hasSpecs says whether ./specs holds anything.
func hasSpecs() bool {
	entries, err := os.ReadDir("specs")
	return err == nil && len(entries) > 0
}

// runSession is everything between the preflight and the exit code.
func (o Options) runSession(ctx context.Context, adapter agent.Adapter, as agent.Session, flags loopFlags, timeout time.Duration) (loop.Stop, error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if !signal.Ignored(syscall.SIGHUP) { // under nohup the loop goes on
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer catchBrokenPipe()()

	s, err := o.openSession(ctx, as.Mode == agent.Build)
	if err != nil {
		return loop.Failed, err
	}
	defer o.close(ctx, s)
	as.Program = s.self
	if as.Sandboxed {
		// Once: a run of the agent must not change what the next one is told.
		if as.Prompts, err = prompt.Load(filepath.Join(s.top, ".ralph", "prompts")); err != nil {
			return loop.Failed, err
		}
	}
	o.banner(adapter, as, flags, s)
	if flags.model != "" && adapter.Model(as) == "" {
		_, _ = fmt.Fprintf(o.Stderr, "Warning: the agent %s has no model; --model is ignored\n", adapter.Name())
	}
	lo := loop.Options{
		Agent: adapter, Session: as, Env: s.environ(), AgentID: s.agentID,
		MaxIterations: flags.maxIterations, Timeout: timeout, Head: head,
		Signals: signals, Stdout: o.Stdout, Stderr: o.Stderr,
	}
	if s.backlog != nil {
		lo.Backlog = *s.backlog
	}
	stop, err := loop.Run(ctx, lo)
	if errors.Is(err, syscall.EPIPE) {
		err = errors.New("nobody reads the output any more; the agent was stopped and its task released")
	}
	return stop, err
}

// banner says what is about to run.
func (o Options) banner(adapter agent.Adapter, as agent.Session, flags loopFlags, s *session) {
	var b strings.Builder
	line := func(label, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s%s\n", label, value)
		}
	}
	rule := strings.Repeat("━", 40) + "\n"
	b.WriteString(rule)
	line("Mode:   ", string(as.Mode))
	line("Prompt: ", adapter.Prompt(as))
	b.WriteString("Branch: " + s.branch + "\n")
	safe := "yes"
	if flags.danger {
		safe = "NO (--dangerously-skip-permissions)"
	}
	line("Safe:   ", safe)
	line("Backend: ", adapter.Backend(as))
	line("Agent:  ", s.agentID)
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
	_, _ = fmt.Fprint(o.Stdout, b.String())
}
