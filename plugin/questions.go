package plugin

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command/formatter"
	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/docker-ralph/docker-ralph/lifecycle/host"
	"github.com/docker-ralph/docker-ralph/lifecycle/manage"
	"github.com/docker-ralph/docker-ralph/wire/taskjson"
	"github.com/docker-ralph/docker-ralph/wire/termsafe"
)

func newQuestionsCommand(d dispatcher) *cobra.Command {
	var all bool
	var format string
	cmd := &cobra.Command{
		Use:               "questions [OPTIONS]",
		Short:             "List open questions",
		Long:              "List the questions that agents have asked and you have not answered.",
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			h, err := d.host(cmd, host.TaskCommand)
			if err != nil {
				return err
			}
			if all {
				list, err := manage.AllQuestions(cmd.Context(), h)
				if err != nil {
					return err
				}
				return printSandboxQuestions(d.cli.Out(), format, list)
			}
			worktree, err := d.options.worktree.wanted()
			if err != nil {
				return err
			}
			list, err := manage.Questions(cmd.Context(), h, worktree)
			if err != nil {
				return err
			}
			return printQuestions(d.cli.Out(), format, append([]taskjson.OpenQuestion{}, list...))
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&all, "all", "a", false, "Show the questions of all backlogs")
	addFormat(cmd, &format)
	return cmd
}

func printQuestions(out io.Writer, format string, list []taskjson.OpenQuestion) error {
	if format == formatter.JSONFormatKey {
		return writeJSON(out, list)
	}
	for i, q := range list {
		if i > 0 {
			_, _ = fmt.Fprintln(out)
		}
		if _, err := io.WriteString(out, questionText(q)); err != nil {
			return err
		}
	}
	return nil
}

func printSandboxQuestions(out io.Writer, format string, list []manage.SandboxQuestion) error {
	if format == formatter.JSONFormatKey {
		if list == nil {
			list = []manage.SandboxQuestion{}
		}
		return writeJSON(out, list)
	}
	for i, q := range list {
		if i > 0 {
			_, _ = fmt.Fprintln(out)
		}
		_, err := fmt.Fprintf(out, "%s (%s %s)\n%s", q.Sandbox, termsafe.Line(q.Repo), termsafe.Line(q.Branch), questionText(q.OpenQuestion))
		if err != nil {
			return err
		}
	}
	return nil
}

// questionText formats a question, whose texts are untrusted.
func questionText(q taskjson.OpenQuestion) string {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "%s: %s\n", termsafe.Line(q.ID), termsafe.Line(q.Title))
	for line := range strings.SplitSeq(termsafe.Strip(q.Text), "\n") {
		_, _ = fmt.Fprintf(&b, "  %s\n", line)
	}
	for i, choice := range q.Choices() {
		_, _ = fmt.Fprintf(&b, "  %d. %s%s\n", i+1, termsafe.Line(choice), defaultMark(q, choice))
	}
	return b.String()
}

// defaultMark marks the default answer.
func defaultMark(q taskjson.OpenQuestion, choice string) string {
	switch {
	case choice != q.Default:
		return ""
	case q.DefaultAt.IsZero():
		return " (default)"
	}
	return " (default in " + units.HumanDuration(max(0, time.Until(q.DefaultAt))) + ")"
}
